"""Commands ``maxendnet web ...``."""

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
                       help="one: one record per page; many: labelled pages are listings; auto: detect "
                       "listings from the labels.")  # fmt: skip
NEW_SITES = click.option(
    "--new-sites", is_flag=True, help="Train for unlabelled sites, without site-specific features."
)
SITE = click.option("--site", default="", help="Site of all pages.  [default: derived from each page or its folder]")
PAGES = click.argument("pages", type=click.Path(path_type=Path), nargs=-1, required=True)


@click.group()
def web() -> None:
    """Extract records from web pages after labelling a few of them.

    Label pages in the browser (label) or by hand in a file, train a model (train), then extract a table from other
    pages (extract).

    \b
    Examples:
      maxendnet web demo
      maxendnet web label shop pages/ --fields name,price
      maxendnet web train pages/ labels.jsonl -o shop.medn
      maxendnet web extract shop.medn pages/new/*.html -o out.csv
    """


class Errors(click.Command):
    """Command that reports expected errors as messages instead of tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        from maxendnet.web import RenderError

        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the command group ends quietly, for example with `| head`
            raise
        except OSError as error:
            raise click.ClickException(
                f"{error.filename}: {error.strerror}." if error.filename else str(error)
            ) from error
        except (
            ValueError,
            RenderError,
            ModuleNotFoundError,
        ) as error:  # LabelError, PageError and ModelFileError are ValueErrors
            raise click.ClickException(str(error)) from error


def progress(items: Iterable[Any], what: str) -> Iterable[Any]:
    """Wrap an iterable in a progress bar that is removed at the end."""
    bar: Iterable[Any] = progress_bar(items, desc=what, leave=False)
    return bar


def counted(n: int, word: str) -> str:
    """Return a count with its noun: "1 page", "2 pages"."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def split_names(text: str) -> list[str]:
    """Split comma-separated names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def note(problems: Sequence[str], max_shown: int = 10) -> None:
    """Print problems to the error stream, at most ``max_shown`` of them."""
    for problem in problems[:max_shown]:
        click.echo(f"note: {problem}", err=True)
    if len(problems) > max_shown:
        click.echo(f"note: and {len(problems) - max_shown} more", err=True)


@web.command(cls=Errors)
@click.argument("project", type=FOLDER)
@click.option("--fields", required=True, help="Comma-separated names of the fields.")
def init(project: Path, fields: str) -> None:
    """Create a project folder.

    The folder contains pages/, labels.jsonl and project.json.

    \b
    Examples:
      maxendnet web init shop --fields name,price,image
    """
    from maxendnet.web.fields.labels import check_field

    names = [check_field(name, "--fields") for name in split_names(fields)]
    if not names or len(set(names)) < len(names):
        raise click.BadParameter("name each field exactly once, for example name,price", param_hint="--fields")
    if (project / "project.json").exists():
        raise click.ClickException(f"{project} is already a project; choose another folder, or edit its project.json.")
    (project / "pages").mkdir(parents=True, exist_ok=True)
    text = json.dumps({"fields": names}, indent=2) + "\n"
    write_whole(project / "project.json", lambda file: file.write(text.encode()))
    if not (project / "labels.jsonl").exists():
        write_whole(project / "labels.jsonl", lambda file: None)
    click.echo(f"Save pages in {project / 'pages'}, one folder per site. Then write one line per labelled page to "
               f"{project / 'labels.jsonl'}:")  # fmt: skip
    click.echo('  {"page": "x.com/a.html", "values": ' + json.dumps({name: ["..."] for name in names}) + "}")
    click.echo(f"or label them in the browser: maxendnet web label {project} {project / 'pages'}")
    model = project / f"{project.resolve().name}.medn"  # the same path as in `label`
    click.echo(f"Train with: maxendnet web train {project / 'pages'} {project / 'labels.jsonl'} -o {model}")


@web.command(cls=Errors)
@click.argument("name", type=click.Path(path_type=Path))
@click.argument("pages", type=FOLDER)
@click.option(
    "--fields", default="", help="Comma-separated names of the fields.  [default: those of the project or model]"
)
@click.option(
    "--labels",
    type=FILE,
    help="Label file.  [default: labels.jsonl in the project, or NAME.labels.jsonl next to the model]",
)
@RECORDS
@NEW_SITES
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the local server.  [default: a free port]"
)
@click.option("--most", type=click.IntRange(min=1), default=400, show_default=True,
              help="Maximum number of pages to read; the next page to label is chosen among them.")  # fmt: skip
@click.option("--open", "open_browser", is_flag=True, help="Open the labelling page in the default browser.")
def label(
    name: Path, pages: Path, fields: str, labels: Path | None, records: str, new_sites: bool, port: int, most: int,
    open_browser: bool,
) -> None:  # fmt: skip
    """Label pages in the browser.

    Meanwhile a model is trained in the background and suggests values.

    NAME is a project folder (see maxendnet web init), a model file, or a new name. The model is written to NAME.medn
    after each page, and the labels are saved after each click. First you label one page of each site, then the pages
    about which the model is least certain. Stop with Ctrl-C; run the same command again to resume.

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
              help="Estimator.  [default: lapmedn with --model choice, otherwise l2crf]")  # fmt: skip
@click.option("--model", type=click.Choice(["choice", "independent", "chain", "hierarchical"]), default="choice",
              show_default=True,
              help="choice: the texts of a page compete for each field; independent: each text alone; chain: texts in "
              "document order; hierarchical: the vision tree.")  # fmt: skip
@RECORDS
@click.option("--type", "types", multiple=True, metavar="FIELD=TYPE",
              help="Type of a field: text, price, date, number, mail, link or image. Values of another type are "
              "discarded. May be repeated.")  # fmt: skip
@click.option("--several", default="", help="Comma-separated fields that may have several values per record.")
@click.option("--siblings", is_flag=True, help="Hierarchical model: score neighbouring blocks together.")
@click.option(
    "--constraints", is_flag=True, help="Hierarchical model: forbid impossible label pairs of a block and its child."
)
@click.option("--layout", type=click.Choice(["off", "on"]), default="off", show_default=True,
              help="Use positions and fonts as rendered by headless Chromium.")  # fmt: skip
@click.option("--strength", type=click.FloatRange(min=0, min_open=True),
              help="Regularisation constant: lam of l2crf and l1crf, C of the margin models.")  # fmt: skip
@click.option("--no-confidence", is_flag=True, help="Skip calibration: faster, but confidences are not meaningful.")
@click.option("--skip-unmatched", is_flag=True,
              help="Ignore labels that do not occur on their page: the field is then unknown there.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Fail if a labelled page cannot be read or a label cannot be used.")
def train(
    pages: Path, labels: Path, out: Path, new_sites: bool, system: str | None, model: str, layout: str,
    strength: float | None, no_confidence: bool, skip_unmatched: bool, strict: bool, siblings: bool, constraints: bool,
    records: str, types: tuple[str, ...], several: str,
) -> None:  # fmt: skip
    """Train a model on a folder of pages and a file of labels.

    Unlabelled pages help too, because they show what the pages of their site have in common. A label that does not
    occur on its page is an error, unless --skip-unmatched is used.

    \b
    Each line of the label file has one of these forms:
      {"page": "a.html", "site": "x.com", "labels": [[214, "price"], [30, "name"]]}
      {"page": "a.html", "site": "x.com", "values": {"price": ["$12"], "name": ["A cup"]}}
    In a listing, one or two records are enough. Each list contains one entry per record, null for a missing value:
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
        raise click.UsageError("--siblings and --constraints require --model hierarchical.")
    given = read_labels(labels)
    field_types = _types(types, {name for x in given for name in x.fields} | set(project_fields(labels.parent)))
    page_list, page_labels, problems = labelled_folder(pages, given, progress=progress)
    unread = {x.page for x in given} - {page.name for page in page_list}
    if unread and strict:
        raise click.ClickException(f"{sorted(unread)[0]} could not be read: {problems[0]}")
    if layout == "on":
        page_list = _rendered(page_list, pages)
    n_sites = len({page.site for page, x in zip(page_list, page_labels) if x is not None})
    given_estimator = None
    if system is not None or strength is not None:
        given_estimator = estimator(system or default_system(model), strength, situation(new_sites, n_sites), model)
    extractor = Extractor(
        given_estimator, model, "new" if new_sites else "known", calibrate=not no_confidence, siblings=siblings,
        constraints=constraints, records=records, types=field_types, several=split_names(several),
    )  # fmt: skip
    extractor.fit(
        page_list, page_labels, fields=project_fields(labels.parent), skip_unmatched=skip_unmatched, progress=progress
    )
    note(problems + extractor.problems_)
    if strict and extractor.problems_:
        raise click.ClickException(f"{len(extractor.problems_)} labels could not be used; nothing was written.")
    extractor.save(out)
    fitted = extractor.estimator_
    n = sum(x is not None for x in page_labels)
    click.echo(
        f"{out}: {counted(len(extractor.fields_), 'field')} ({', '.join(extractor.fields_)}), trained on "
        f"{counted(n, 'labelled page')} of {counted(len(extractor.sites_), 'site')} and "
        f"{counted(len(page_list) - n, 'unlabelled page')}; {type(fitted).__name__}, "
        f"{fitted.n_features_in_:,} features, gap {fitted.gap_:.1e}."
    )
    if extractor.listings_:
        click.echo(f"Sites with listings (one row per record): {', '.join(sorted(extractor.listings_))}.")


@web.command(cls=Errors)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("pages", type=click.Path(path_type=Path), nargs=-1)
@click.option("-o", "--out", type=FILE, help="File to write, .jsonl or .csv.  [default: print JSON lines]")
@SITE
@click.option("--schema", is_flag=True,
              help="Use schema.org data (JSON-LD, microdata) where a page has it; labels of the model override it. "
              "MODEL may be omitted.")  # fmt: skip
@click.option("--fields", default="", help="With --schema: comma-separated fields, such as name,cost=offers.price.  "
              "[default: those of the model]")  # fmt: skip
@click.option("--several", default="", help="With --schema: comma-separated fields that may have several values.")
@click.option("--records", type=click.Choice(["one", "auto"]),
              help="one: one record per page, except on known listings; auto: detect repeated items.  "
              "[default: as trained]")  # fmt: skip
@click.option("--min-confidence", type=click.FloatRange(0, 1), default=0.2, show_default=True,
              help="Leave cells with a lower confidence empty.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True,
              help="Number of processes. It does not change the output.")  # fmt: skip
@click.option(
    "--excel", is_flag=True, help="Begin the CSV file with a byte order mark, so that Excel reads it as UTF-8."
)
@click.option("--strict", is_flag=True, help="Fail if a page cannot be read without a warning; write nothing then.")
def extract(
    model: Path | None, pages: tuple[Path, ...], out: Path | None, site: str, records: str | None,
    min_confidence: float, jobs: int, excel: bool, strict: bool, schema: bool, fields: str, several: str,
) -> None:  # fmt: skip
    """Extract records from pages (files or folders).

    Pass all pages of a site together, because they vote on the place of each field. Rows are written as soon as they
    are ready, so memory does not grow with the number of pages. Repeat the command to resume an interrupted run. A page
    that cannot be read gets a row without values; the column "error" states the reason.

    \b
    Examples:
      maxendnet web extract shop.medn a.html b.html -o out.jsonl
      maxendnet web extract shop.medn pages/ -o out.csv --min-confidence 0.5
      maxendnet web extract shop.medn pages/ -o out.csv --jobs 4 --excel
      maxendnet web extract --schema --fields name,price pages/ -o out.csv
    """
    from maxendnet.web.tool.stream import Options, extract_stream

    if model is not None and schema and model.suffix != ".medn":
        pages, model = (model, *pages), None
    properties = {name: path or name for name, _, path in (item.partition("=") for item in split_names(fields))}
    if (properties or several) and not schema:
        raise click.UsageError("--fields and --several require --schema; without it, the model has the fields.")
    if not pages:
        raise click.UsageError("name the pages to extract from: MODEL PAGES..., or --schema PAGES... without a model.")

    if out is not None and out.suffix not in (".jsonl", ".csv"):
        raise click.BadParameter(f"{out} ends in neither .jsonl nor .csv.", param_hint="--out")
    csv = out is not None and out.suffix == ".csv"
    if excel and not csv:
        raise click.UsageError("--excel requires -o FILE.csv.")
    files = _files(pages)
    if schema and model is None and not properties:
        raise click.UsageError(f"--schema without a model requires --fields, such as {_schema_fields(files)}.")
    options = Options(
        site, records, min_confidence, csv, excel, schema=schema, fields=list(properties.items()),
        several=split_names(several), strict=strict,
    )  # fmt: skip
    total = extract_stream(model, files, sys.stdout if out is None else out, options, jobs, progress=progress)
    note(total.problems)
    if not total.n_pages:
        raise click.ClickException("none of the pages could be read.")
    if out is not None:
        resumed = f"; {counted(total.resumed, 'page')} from an earlier run" if total.resumed else ""
        unread = f'; {counted(total.n_unread, "page")} not read, see the column "error"' if total.n_unread else ""
        click.echo(
            f"{out}: {counted(total.n_records, 'record')} from {counted(total.n_pages, 'page')}; {total.n_empty} of "
            f"{counted(total.n_cells, 'cell')} empty{unread}{resumed}."
        )


@web.command(cls=Errors)
@click.argument("model", type=FILE)
@PAGES
@click.option("-o", "--out", type=FILE, help="File to write.  [default: print]")
@SITE
@click.option("--min-confidence", type=click.FloatRange(0, 1), default=0.5, show_default=True,
              help="Ignore cells with a lower confidence.")  # fmt: skip
def selectors(model: Path, pages: tuple[Path, ...], out: Path | None, site: str, min_confidence: float) -> None:
    """Write CSS selectors of the fields as JSON.

    For each site and field, writes the selector that matches most of the extracted values, and their number.

    \b
    Examples:
      maxendnet web selectors shop.medn pages/ -o selectors.json
    """
    from maxendnet.web.views.selectors import find_selectors

    extractor, page_list, _ = _load(model, pages, site)
    records = extractor.extract(page_list, min_confidence=min_confidence, progress=progress)
    rows = find_selectors(page_list, records, extractor.attributes_)
    text = json.dumps([row._asdict() for row in rows], indent=2, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(out, lambda file: file.write(text.encode()))
        click.echo(f"{out}: {counted(len(rows), 'selector')}.")


@web.command(cls=Errors)
@click.argument("model", type=FILE)
@click.argument("pages", type=FOLDER)
@click.argument("labels", type=FILE)
@click.option("--min-confidence", type=click.FloatRange(0, 1), default=0.2, show_default=True,
              help="Leave cells with a lower confidence empty.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(model: Path, pages: Path, labels: Path, min_confidence: float, as_json: bool) -> None:
    """Evaluate a model on labelled pages.

    Prints precision, recall and F1 of each field, and the first 10 errors.

    \b
    Examples:
      maxendnet web evaluate shop.medn pages/ test.jsonl
    """
    from maxendnet.web.fields.labels import read_labels
    from maxendnet.web.model.extractor import Extractor
    from maxendnet.web.pages.folder import labelled_folder
    from maxendnet.web.tool.evaluation import evaluate as compare

    extractor = Extractor.load(model)
    page_list, page_labels, problems = labelled_folder(pages, read_labels(labels), progress=progress)
    if extractor.layout_:
        page_list = _rendered(page_list, pages)
    note(problems)
    records = extractor.extract(page_list, min_confidence=min_confidence, progress=progress)
    labelled = [page for page, given in zip(page_list, page_labels) if given is not None]
    given = [x for x in page_labels if x is not None]
    scores = compare(labelled, given, records, extractor.fields_, extractor.images_, extractor.data_)
    if as_json:
        field_scores = {
            f.name: {"precision": f.precision, "recall": f.recall, "f1": f.f1, "records": f.n_true}
            for f in scores.fields
        }
        click.echo(
            json.dumps(
                {"pages": scores.n_pages, "records": scores.n_records, "average_f1": scores.average_f1,
                 "all_right": scores.all_right, "not_on_page": scores.problems, "fields": field_scores}, indent=2,
            )
        )  # fmt: skip
        return
    click.echo(f"{'field':<24}{'records':>9}{'precision':>11}{'recall':>9}{'F1':>8}")
    for f in scores.fields:
        click.echo(f"{f.name:<24}{f.n_true:>9}{f.precision:>11.3f}{f.recall:>9.3f}{f.f1:>8.3f}")
    click.echo(
        f"average F1 {scores.average_f1:.3f}; all fields correct in {scores.all_right:.1%} of "
        f"{counted(scores.n_records, 'record')} on {counted(scores.n_pages, 'page')}"
    )
    if scores.problems:
        click.echo(f"{counted(len(scores.problems), 'labelled value')} not on the page, counted as missed:")
    for problem in scores.problems[:10]:
        click.echo(f"  {problem}")
    for name, field, answer, truth in scores.wrong[:10]:
        click.echo(f"  {name}: {field} is {truth[0][:50]!r}, extracted {answer[:50]!r}")


@web.command(cls=Errors)
@click.argument("model", type=FILE)
@PAGES
@SITE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per site.")
@click.pass_context
def check(ctx: click.Context, model: Path, pages: tuple[Path, ...], site: str, as_json: bool) -> None:
    """Report sites that have changed since training.

    The exit code is 3 if a site has changed.

    \b
    Examples:
      maxendnet web check shop.medn pages/
    """
    from maxendnet.web.model.check import check as check_sites

    extractor, page_list, _ = _load(model, pages, site)
    reports = check_sites(extractor, page_list)
    for report in reports:
        if as_json:
            click.echo(json.dumps({**report._asdict(), "changed": report.changed}))
            continue
        state = "CHANGED" if report.gone and report.known else "unsure" if report.unsure else "ok"
        known = "" if report.known else ", not labelled"
        click.echo(f"{report.site or '(no site)'}: {state} ({counted(report.n_pages, 'page')}{known})")
        for name, value in report.confidence.items():
            click.echo(f"    {name:<24}confidence {value:.2f}")
        for word in report.words:
            click.echo(f"    {word}")
        if report.changed or report.unsure:
            click.echo(f"    inspect {', '.join(report.look_at)}")
    ctx.exit(3 if any(report.changed for report in reports) else 0)


@web.command(cls=Errors)
@click.option("--out", type=FOLDER, default=Path("maxendnet-web-demo"), show_default=True, help="Output folder.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the page generator.")
def demo(out: Path, seed: int) -> None:
    """Run a demonstration on toy shops.

    It generates pages, trains on three pages of each shop and extracts records from the others.

    \b
    Examples:
      maxendnet web demo
    """
    from maxendnet.web.tool.demo import demo as run

    run(out, seed, click.echo)


# ---- shared helpers ------------------------------------------------------------------------------------------------


def _types(given: Sequence[str], fields: Collection[str]) -> dict[str, str] | None:
    """Parse ``--type FIELD=TYPE`` options."""
    from maxendnet.web.fields.types import KINDS

    field_types = {}
    for item in given:
        name, _, kind = item.rpartition("=")
        if name not in fields or kind not in KINDS:
            raise click.BadParameter(
                f"{item!r} is not FIELD=TYPE with a labelled field ({', '.join(sorted(fields))}) and a type "
                f"({', '.join(KINDS)}).", param_hint="--type",
            )  # fmt: skip
        field_types[name] = kind
    return field_types or None


def _rendered(pages: list[Any], root: Path) -> list[Any]:
    from maxendnet.web.rendering.render import render_pages

    rendered, unread = render_pages([(page, root / page.name) for page in pages], progress=progress)
    note([page.error for page in unread])
    return rendered


def _files(pages: Sequence[Path]) -> list[Path]:
    """Return the page files named on the command line, with folders expanded."""
    from maxendnet.web.pages.folder import ignored_files_note, is_plain_text, page_files

    files: list[Path] = []
    for path in pages:
        if path.is_dir():
            files += page_files(path)
            note(ignored_files_note(path))
        elif is_plain_text(path):
            note([f"{path} contains no HTML element and is skipped"])
        else:
            files.append(path)
    if not files:
        raise click.ClickException("none of the files is a page.")
    return files


def _schema_fields(files: Sequence[Path]) -> str:
    """Return the schema.org properties of the first page, as an example for ``--fields``."""
    from maxendnet.web.pages.page import read_page
    from maxendnet.web.pages.schema_items import SchemaItems

    return ",".join(SchemaItems(read_page(files[0])).property_names()[:20]) or "name,price"


def _load(model: Path, pages: Sequence[Path], site: str) -> tuple[Any, list[Any], list[str]]:
    """Load a model and read pages.

    Returns the model, the readable pages, and the error messages and warnings about pages.
    """
    from maxendnet.web.model.extractor import Extractor
    from maxendnet.web.tool.stream import read_files

    extractor = Extractor.load(model)
    readable, unread, warnings = read_files(_files(pages), site, extractor, progress)
    problems = [page.error for page in unread] + warnings
    note(problems)
    return extractor, readable, problems
