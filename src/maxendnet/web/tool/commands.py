"""The commands ``maxendnet web ...``."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from maxendnet.utils.atomic_write import write_whole
from maxendnet.utils.progress import progress_bar

SYSTEMS = ("l2crf", "lapmedn", "m3n", "l1m3n", "crf", "l1crf")
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
RECORDS = click.option("--records", type=click.Choice(["one", "many", "auto"]), default="auto", show_default=True,
                       help="One record a page, listings, or what the labels look like.")  # fmt: skip
NEW_SITES = click.option("--new-sites", is_flag=True, help="Features for sites that are not labelled.")
SITE = click.option("--site", default="", help="The site of all these pages.")
PAGES = click.argument("pages", type=click.Path(path_type=Path), nargs=-1, required=True)


@click.group()
def web() -> None:
    """Pages in, records out: learn fields from a few labelled pages.

    \b
    Examples:
      maxendnet web demo
      maxendnet web train pages/ labels.jsonl -o shop.medn
      maxendnet web extract shop.medn pages/new/*.html -o out.csv
    """


class Errors(click.Command):
    """A command whose expected errors are messages, not tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        from maxendnet.web import RenderError

        try:
            return super().invoke(ctx)
        except OSError as error:
            raise click.ClickException(
                f"{error.filename}: {error.strerror}." if error.filename else str(error)
            ) from error
        except (ValueError, RenderError, ModuleNotFoundError) as error:  # also LabelError, PageError, ModelFileError
            raise click.ClickException(str(error)) from error


def progress(items: Iterable[Any], what: str) -> Iterable[Any]:
    """Progress bar that vanishes at the end."""
    bar: Iterable[Any] = progress_bar(items, desc=what, leave=False)
    return bar


def counted(n: int, word: str) -> str:
    """A number with its word: "1 page", "2 pages"."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def split_names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def note(problems: Sequence[str], most: int = 10) -> None:
    """Name problems on the error stream, the first few in full."""
    for problem in problems[:most]:
        click.echo(f"note: {problem}", err=True)
    if len(problems) > most:
        click.echo(f"note: and {len(problems) - most} more", err=True)


@web.command(cls=Errors)
@click.argument("project", type=FOLDER)
@click.option("--fields", required=True, help="Names of the fields, with commas between.")
@click.option("--alias", multiple=True, help="Other names of a field: price=cost,msrp")
def init(project: Path, fields: str, alias: tuple[str, ...]) -> None:
    """Begin a project: a folder with pages/, labels.jsonl and project.json.

    \b
    Examples:
      maxendnet web init shop --fields name,price,image --alias price=cost,msrp
    """
    from maxendnet.web.fields.labels import check_field

    names = [check_field(name, "--fields") for name in split_names(fields)]
    if not names or len(set(names)) < len(names):
        raise click.BadParameter("give every field once, for instance name,price", param_hint="--fields")
    aliases = {}
    for item in alias:
        name, equals, others = item.partition("=")
        if not equals or name not in names:
            raise click.BadParameter(f"{item!r} is not field=name,name with one of the fields", param_hint="--alias")
        aliases[name] = split_names(others)
    if (project / "project.json").exists():
        raise click.ClickException(f"{project} is a project already; give another folder, or change its project.json.")
    (project / "pages").mkdir(parents=True, exist_ok=True)
    text = json.dumps({"fields": names, "aliases": aliases}, indent=2) + "\n"
    write_whole(project / "project.json", lambda file: file.write(text.encode()))
    if not (project / "labels.jsonl").exists():
        write_whole(project / "labels.jsonl", lambda file: None)
    click.echo(f"Put saved pages into {project / 'pages'}, a folder for each site, and a line a page into "
               f"{project / 'labels.jsonl'}:")  # fmt: skip
    click.echo('  {"page": "x.com/a.html", "values": ' + json.dumps({name: ["..."] for name in names}) + "}")
    click.echo(f"or label them in the browser: maxendnet web label {project} {project / 'pages'}")
    model = project / f"{project.resolve().name}.medn"  # where label writes it, too
    click.echo(f"Then: maxendnet web train {project / 'pages'} {project / 'labels.jsonl'} -o {model}")


@web.command(cls=Errors)
@click.argument("name", type=click.Path(path_type=Path))
@click.argument("pages", type=FOLDER)
@click.option("--fields", default="", help="Names of the fields, with commas between; a project or a model has them.")
@click.option(
    "--labels", type=FILE, help="File of labels.  [default: labels.jsonl in the project, or beside the model]"
)
@RECORDS
@NEW_SITES
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the local server.  [default: a free one]")
@click.option("--most", type=click.IntRange(min=1), default=400, show_default=True, help="Pages to choose from.")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def label(
    name: Path, pages: Path, fields: str, labels: Path | None, records: str, new_sites: bool, port: int, most: int,
    open_browser: bool,
) -> None:  # fmt: skip
    """Label pages in the browser, while a model learns along.

    NAME is a project (a folder made by maxendnet web init), a model file, or just a name: the model is written to
    NAME.medn after every page, and the labels to labels.jsonl at every click. One page of each site is asked for first,
    then the page that the model is least certain of. End with Ctrl-C, and go on later with the same command.

    \b
    Examples:
      maxendnet web label shop pages/ --fields name,price,image
      maxendnet web label shop/ shop/pages --open
    """
    from maxendnet.web.labelling.command import prepare, serve

    work, notes = prepare(
        name, pages, fields=split_names(fields), labels=labels, records=records, new_sites=new_sites, most=most,
        progress=progress,
    )  # fmt: skip
    note(notes)
    serve(work, port, open_browser, click.echo)


@web.command(cls=Errors)
@click.argument("pages", type=FOLDER)
@click.argument("labels", type=FILE)
@click.option("-o", "--out", type=FILE, required=True, help="Model file to write.")
@NEW_SITES
@click.option("--system", type=click.Choice(SYSTEMS),
              help="What to learn with; lapmedn with --model choice, else l2crf.")  # fmt: skip
@click.option("--model", type=click.Choice(["choice", "independent", "chain", "hierarchical"]), default="choice",
              show_default=True,
              help="Texts of a page compete for a field, or stand alone, in a row, in a tree.")  # fmt: skip
@RECORDS
@click.option("--type", "types", multiple=True, metavar="FIELD=TYPE",
              help="text, price, date, number, mail, link or image: a cell of another kind is left out.")  # fmt: skip
@click.option("--several", default="", help="Fields with several values in a record, with commas between.")
@click.option("--siblings", is_flag=True, help="Hierarchical: neighbouring blocks are scored together.")
@click.option("--constraints", is_flag=True, help="Hierarchical: impossible pairs of block and child are ruled out.")
@click.option("--layout", type=click.Choice(["off", "on"]), default="off", show_default=True,
              help="Boxes and fonts by headless Chromium.")  # fmt: skip
@click.option("--strength", type=click.FloatRange(min=0, min_open=True),
              help="lam of l2crf and l1crf, C of the margin models.")  # fmt: skip
@click.option("--no-confidence", is_flag=True, help="Do not learn confidences: quicker, and they mean little.")
@click.option("--skip-unmatched", is_flag=True,
              help="Leave out labels that are nowhere on their page: the field is unknown there.")  # fmt: skip
@click.option("--strict", is_flag=True, help="A labelled page that cannot be read, or any unused label, is an error.")
def train(
    pages: Path, labels: Path, out: Path, new_sites: bool, system: str | None, model: str, layout: str,
    strength: float | None, no_confidence: bool, skip_unmatched: bool, strict: bool, siblings: bool, constraints: bool,
    records: str, types: tuple[str, ...], several: str,
) -> None:  # fmt: skip
    """Learn from a folder of pages and a file of labels.

    Pages without labels help too: they tell what the pages of their site have in common. A label that is nowhere on its
    page is an error, unless --skip-unmatched is given.

    \b
    A line of the labels is one of
      {"page": "a.html", "site": "x.com", "labels": [[214, "price"], [30, "name"]]}
      {"page": "a.html", "site": "x.com", "values": {"price": ["$12"], "name": ["A cup"]}}
    Of a listing one or two records are enough; lists have a place for each, null where it has no such value:
      {"page": "list.html", "values": {"price": ["$12", null], "name": ["A cup", "A pot"]}}

    \b
    Examples:
      maxendnet web train pages/ labels.jsonl -o shop.medn
      maxendnet web train pages/ labels.jsonl -o list.medn --records many
      maxendnet web train pages/ labels.jsonl -o shop.medn --new-sites --system lapmedn
    """
    from maxendnet.web.fields.labels import read_labels
    from maxendnet.web.model.extractor import Extractor
    from maxendnet.web.model.systems import default_system, estimator, situation
    from maxendnet.web.pages.folder import labelled_folder, project_fields

    if (siblings or constraints) and model != "hierarchical":
        raise click.UsageError("--siblings and --constraints are for --model hierarchical.")
    given = read_labels(labels)
    wanted = _types(types, {name for x in given for name in x.fields} | set(project_fields(labels.parent)))
    found, of_pages, problems = labelled_folder(pages, given, progress=progress)
    missing = {x.page for x in given} - {page.name for page in found}
    if missing and strict:
        raise click.ClickException(f"{sorted(missing)[0]} could not be read: {problems[0]}")
    if layout == "on":
        found = _rendered(found, pages)
    n_sites = len({page.site for page, x in zip(found, of_pages) if x is not None})
    learner = None
    if system is not None or strength is not None:
        learner = estimator(system or default_system(model), strength, situation(new_sites, n_sites), model)
    extractor = Extractor(
        learner, model, "new" if new_sites else "known", calibrate=not no_confidence, siblings=siblings,
        constraints=constraints, records=records, types=wanted, several=split_names(several),
    )  # fmt: skip
    extractor.fit(
        found, of_pages, fields=project_fields(labels.parent), skip_unmatched=skip_unmatched, progress=progress
    )
    note(problems + extractor.problems_)
    if strict and extractor.problems_:
        raise click.ClickException(f"{len(extractor.problems_)} labels could not be used; nothing was written.")
    extractor.save(out)
    fitted = extractor.estimator_
    n = sum(x is not None for x in of_pages)
    click.echo(
        f"{out}: {counted(len(extractor.fields_), 'field')} ({', '.join(extractor.fields_)}), learned from "
        f"{counted(n, 'labelled page')} of {counted(len(extractor.sites_), 'site')} and "
        f"{counted(len(found) - n, 'other')}; {type(fitted).__name__}, "
        f"{fitted.n_features_in_:,} features, gap {fitted.gap_:.1e}."
    )
    if extractor.listings_:
        click.echo(f"Listings, a row for every record: {', '.join(sorted(extractor.listings_))}.")


@web.command(cls=Errors)
@click.argument("model", type=FILE)
@PAGES
@click.option("-o", "--out", type=FILE, help="File to write, .jsonl or .csv; else lines of JSON are printed.")
@SITE
@click.option("--records", type=click.Choice(["one", "auto"]),
              help="One for what is no labelled listing, or runs of like blocks.  [default: as learned]")  # fmt: skip
@click.option("--min-confidence", type=click.FloatRange(0, 1), default=0.2, show_default=True,
              help="A cell below is empty.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True,
              help="Processes; the output does not depend on it.")  # fmt: skip
@click.option("--excel", is_flag=True, help="CSV with a byte order mark, by which Excel knows UTF-8.")
@click.option("--strict", is_flag=True, help="A page that cannot be read is an error.")
def extract(
    model: Path, pages: tuple[Path, ...], out: Path | None, site: str, records: str | None, min_confidence: float,
    jobs: int, excel: bool, strict: bool,
) -> None:  # fmt: skip
    """Make records of pages (files, or folders of them).

    Pages of one site are best given together: they vote on where a field is. Rows are written as they are done, and
    memory does not grow with the number of pages. A run that was stopped goes on with the same command. A page that
    cannot be read has a row without values that says why, as "error".

    \b
    Examples:
      maxendnet web extract shop.medn a.html b.html -o out.jsonl
      maxendnet web extract shop.medn pages/ -o out.csv --min-confidence 0.5
      maxendnet web extract shop.medn pages/ -o out.csv --jobs 4 --excel
    """
    from maxendnet.web.tool.stream import Options, extract_stream

    if out is not None and out.suffix not in (".jsonl", ".csv"):
        raise click.BadParameter(f"{out} ends in neither .jsonl nor .csv.", param_hint="--out")
    csv = out is not None and out.suffix == ".csv"
    if excel and not csv:
        raise click.UsageError("--excel is for -o FILE.csv.")
    files = _files(pages)
    if strict:
        _, _, problems = _load(model, pages, site)
        if problems:
            raise click.ClickException(f"{len(problems)} pages could not be read well; nothing was written.")
    options = Options(site, records, min_confidence, csv, excel)
    total = extract_stream(model, files, sys.stdout if out is None else out, options, jobs, progress=progress)
    note(total.problems)
    if not total.n_pages:
        raise click.ClickException("none of the pages could be read.")
    if out is not None:
        went_on = f"; {total.resumed} pages were done by an earlier run" if total.resumed else ""
        unread = f'; {counted(total.n_unread, "page")} not read, see "error" there' if total.n_unread else ""
        click.echo(
            f"{out}: {counted(total.n_records, 'record')} of {counted(total.n_pages, 'page')}; {total.n_empty} of "
            f"{counted(total.n_cells, 'cell')} not found{unread}{went_on}."
        )


@web.command(cls=Errors)
@click.argument("model", type=FILE)
@PAGES
@click.option("-o", "--out", type=FILE, help="File to write; else it is printed.")
@SITE
@click.option("--min-confidence", type=click.FloatRange(0, 1), default=0.5, show_default=True,
              help="Only cells at least so sure count.")  # fmt: skip
def selectors(model: Path, pages: tuple[Path, ...], out: Path | None, site: str, min_confidence: float) -> None:
    """The CSS path of every field, as JSON: for those who want rules.

    For every field of a site, the path that most of the answers share, and how many do.

    \b
    Examples:
      maxendnet web selectors shop.medn pages/ -o selectors.json
    """
    from maxendnet.web.views.selectors import find_selectors

    extractor, found, _ = _load(model, pages, site)
    records = extractor.extract(found, min_confidence=min_confidence, progress=progress)
    rows = find_selectors(found, records, extractor.attributes_)
    text = json.dumps([row._asdict() for row in rows], indent=2, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(out, lambda file: file.write(text.encode()))
        click.echo(f"{out}: {len(rows)} paths.")


@web.command(cls=Errors)
@click.argument("model", type=FILE)
@click.argument("pages", type=FOLDER)
@click.argument("labels", type=FILE)
@click.option("--min-confidence", type=click.FloatRange(0, 1), default=0.2, show_default=True,
              help="A cell below is empty.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
def evaluate(model: Path, pages: Path, labels: Path, min_confidence: float, as_json: bool) -> None:
    """Compare what a model extracts with labelled pages.

    \b
    Examples:
      maxendnet web evaluate shop.medn pages/ test.jsonl
    """
    from maxendnet.web.fields.labels import read_labels
    from maxendnet.web.model.extractor import Extractor
    from maxendnet.web.pages.folder import labelled_folder
    from maxendnet.web.tool.evaluation import evaluate as compare

    extractor = Extractor.load(model)
    found, of_pages, problems = labelled_folder(pages, read_labels(labels), progress=progress)
    if extractor.layout_:
        found = _rendered(found, pages)
    note(problems)
    records = extractor.extract(found, min_confidence=min_confidence, progress=progress)
    labelled = [page for page, given in zip(found, of_pages) if given is not None]
    given = [x for x in of_pages if x is not None]
    scores = compare(labelled, given, records, extractor.fields_, extractor.images_, extractor.data_)
    if as_json:
        found_scores = {
            f.name: {"precision": f.precision, "recall": f.recall, "f1": f.f1, "records": f.n_true}
            for f in scores.fields
        }
        click.echo(
            json.dumps(
                {"pages": scores.n_pages, "records": scores.n_records, "average_f1": scores.average_f1,
                 "all_right": scores.all_right, "not_on_page": scores.problems, "fields": found_scores}, indent=2,
            )
        )  # fmt: skip
        return
    click.echo(f"{'field':<24}{'records':>9}{'precision':>11}{'recall':>9}{'F1':>8}")
    for f in scores.fields:
        click.echo(f"{f.name:<24}{f.n_true:>9}{f.precision:>11.3f}{f.recall:>9.3f}{f.f1:>8.3f}")
    click.echo(
        f"average F1 {scores.average_f1:.3f}; all fields right in {scores.all_right:.1%} of {scores.n_records} records "
        f"on {scores.n_pages} pages"
    )
    if scores.problems:
        click.echo(f"{len(scores.problems)} labelled values are not on their pages, and count as missed:")
    for problem in scores.problems[:10]:
        click.echo(f"  {problem}")
    for name, field, answer, truth in scores.wrong[:10]:
        click.echo(f"  {name}: {field} is {truth[0][:50]!r}, found {answer[:50]!r}")


@web.command(cls=Errors)
@click.argument("model", type=FILE)
@PAGES
@SITE
@click.option("--json", "as_json", is_flag=True, help="For programs: a JSON object a site.")
@click.pass_context
def check(ctx: click.Context, model: Path, pages: tuple[Path, ...], site: str, as_json: bool) -> None:
    """Tell when a site has changed; the exit code is then 3.

    \b
    Examples:
      maxendnet web check shop.medn pages/
    """
    from maxendnet.web.model.check import check as look

    extractor, found, _ = _load(model, pages, site)
    reports = look(extractor, found)
    for report in reports:
        if as_json:
            click.echo(json.dumps({**report._asdict(), "changed": report.changed}))
            continue
        state = "CHANGED" if report.gone and report.known else "unsure" if report.unsure else "ok"
        known = "" if report.known else ", never labelled"
        click.echo(f"{report.site or '(no site)'}: {state} ({report.n_pages} pages{known})")
        for name, value in report.confidence.items():
            click.echo(f"    {name:<24}confidence {value:.2f}")
        for word in report.words:
            click.echo(f"    {word}")
        if report.changed or report.unsure:
            click.echo(f"    look at {', '.join(report.look_at)}")
    ctx.exit(3 if any(report.changed for report in reports) else 0)


@web.command(cls=Errors)
@click.option("--out", type=FOLDER, default=Path("maxendnet-web-demo"), show_default=True, help="Folder for all files.")
@click.option("--seed", type=int, default=0, show_default=True)
def demo(out: Path, seed: int) -> None:
    """Make toy shops, learn from three pages of each, and extract the rest.

    \b
    Examples:
      maxendnet web demo
    """
    from maxendnet.web.tool.demo import demo as run

    run(out, seed, click.echo)


# ---- what the commands share ----------------------------------------------------------------------------------------


def _types(given: Sequence[str], fields: Collection[str]) -> dict[str, str] | None:
    """Types of fields, as they are named on the command line."""
    from maxendnet.web.fields.types import KINDS

    found = {}
    for item in given:
        name, _, kind = item.rpartition("=")
        if name not in fields or kind not in KINDS:
            raise click.BadParameter(
                f"{item!r} is not field=type, with a field that is labelled ({', '.join(sorted(fields))}) and one of "
                f"{', '.join(KINDS)}.", param_hint="--type",
            )  # fmt: skip
        found[name] = kind
    return found or None


def _rendered(found: list[Any], root: Path) -> list[Any]:
    from maxendnet.web.rendering.render import render_pages

    pages, unread = render_pages([(page, root / page.name) for page in found], progress=progress)
    note([page.error for page in unread])
    return pages


def _files(pages: Sequence[Path]) -> list[Path]:
    """Files named on the command line; a folder stands for all pages below it."""
    from maxendnet.web.pages.folder import is_text_alone, others_named, page_files

    found: list[Path] = []
    for path in pages:
        if path.is_dir():
            found += page_files(path)
            note(others_named(path))
        elif is_text_alone(path):
            note([f"{path} has no element of HTML in it, and is left out"])
        else:
            found.append(path)
    if not found:
        raise click.ClickException("none of the files is a page.")
    return found


def _load(model: Path, pages: Sequence[Path], site: str) -> tuple[Any, list[Any], list[str]]:
    """A model, the pages named on the command line, and problems with these; a folder means all pages below it."""
    from maxendnet.web.model.extractor import Extractor
    from maxendnet.web.tool.stream import read_files

    extractor = Extractor.load(model)
    readable, unread, warnings = read_files(_files(pages), site, extractor, progress)
    problems = [page.error for page in unread] + warnings
    note(problems)
    return extractor, readable, problems
