"""The commands ``maxendnet train | tag | evaluate | explain``: results on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from maxendnet.text.reading.errors import TextError
from maxendnet.utils.progress import progress_bar

SYSTEMS = ("l2crf", "l1crf", "crf", "m3n", "lapmedn", "l1m3n")
PATH = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
BELOW = 3
"""Exit code of ``evaluate --at-least`` where F1 is lower."""


class Errors(click.Command):
    """A command whose expected errors are messages with exit code 1, not tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise click.ClickException(
                f"{error.filename}: {error.strerror}." if error.filename else str(error)
            ) from error
        except (ValueError, ModuleNotFoundError) as error:  # TextError and ModelFileError are among them
            raise click.ClickException(str(error)) from error


def note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show every warning of the library once, as a note."""
    shown = set()

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        if "maxendnet" in filename and str(message) not in shown:
            shown.add(str(message))
            note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def reading(function: Any) -> Any:
    """Options of every command that reads a column file."""
    for option in (
        click.option("--comment", help="Lines that begin with it are passed over, for instance '# '."),
        click.option(
            "--separator", help="Between columns; \\t is a tab.  [default: tabs if the first line has one, else spaces]"
        ),
    ):
        function = option(function)
    return function


def schemes(function: Any) -> Any:
    """Options of every command that reads tags."""
    for option in (
        click.option(
            "--repair",
            is_flag=True,
            help="Correct misspelt tags (0 for O, b-PER or B_PER for B-PER), and write misplaced ones as the scheme "
            "asks for. Without it, misspelt tags are an error.",
        ),
        click.option(
            "--scheme",
            default="auto",
            show_default=True,
            help="IOB1, IOB2, BIOES, BILOU, BMES or LABELS; auto is that of most tags.",
        ),
    ):
        function = option(function)
    return function


def read(path: Path | str, separator: str | None, comment: str | None, empty: bool = False) -> Any:
    from maxendnet.text.reading.columns import read_columns

    separator = None if separator is None else separator.replace("\\t", "\t")
    return read_columns(path, separator, comment=comment, empty=empty)


def named_paths(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not name or not path:
            raise click.BadParameter(f"{value!r} is not NAME=FILE", ctx, param)
        found[name] = path
    return found


# ---- train -----------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Learn a tagger from a column file.")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The model file.")
@click.option("--test", type=PATH, help="A column file to evaluate the tagger on in the end.")
@click.option("--dev", type=PATH, help="A column file whose F1 is shown at every look at the fit.")
@click.option("--patience", type=click.IntRange(min=1), help="With --dev: end after so many looks without a better F1.")
@click.option(
    "--features",
    help="words, tagged_words, chunks, characters, or a template file of CRF++.  [default: by the columns, as "
    "Tagger(): tagged_words if there are several, characters if every token is a single character, else words]",
)
@click.option("--model", "system", type=click.Choice(SYSTEMS), default="l2crf", show_default=True, help="The system.")
@click.option("--C", "C", type=float, help="Weight of the loss, of m3n, lapmedn and l1m3n.")
@click.option("--lam", type=float, help="Of the prior, of l2crf, l1crf and lapmedn.")
@click.option(
    "--margin", type=float,
    help="Of l2crf: in learning, what a wrong label adds to the score, so that right ones win by a margin; 0 is the "
    "likelihood.  [default: 3]",
)  # fmt: skip
@click.option(
    "--search/--no-search", default=True, show_default=True,
    help="Choose constants that are not given by cross-validation, or take those that suit most text (l2crf: "
    "--lam 0.1, as Tagger() has).",
)  # fmt: skip
@click.option(
    "--seen/--all-pairs", default=None,
    help="Weights only for pairs of a feature and a label that occur, or for all of them.  [default: all, where there "
    "are at most 16 labels and five million pairs]",
)  # fmt: skip
@click.option(
    "--max-weights", type=click.IntRange(min=1),
    help="A small model: keep so many weights of features, those that count most.",
)  # fmt: skip
@click.option("--rules", is_flag=True, help="Learn and predict only tags that keep the scheme.")
@click.option("--folds", type=click.IntRange(min=2), default=3, show_default=True, help="Of the cross-validation.")
@schemes
@click.option(
    "--columns", help="Columns with features, numbered from 0, for instance 0,1.  [default: all but the label]"
)
@click.option("--label", "label_column", type=int, default=-1, show_default=True, help="The column of the label.")
@click.option(
    "--min-count", type=click.IntRange(min=1), default=1, show_default=True, help="Rarer features are dropped."
)
@click.option("--hashed", type=click.IntRange(min=1), help="Hash features into so many columns.")
@click.option("--gazetteer", multiple=True, callback=named_paths, help="NAME=FILE: phrases, one a line.")
@click.option("--clusters", multiple=True, callback=named_paths, help="NAME=FILE: words and their clusters.")
@click.option("--tol", type=float, help="Relative duality gap at which the fit ends.  [default: 0.01]")
@click.option(
    "--jobs", type=int, default=1, show_default=True, help="Threads, and folds at a time; -1 is all processors."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same model.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@reading
def train(
    files: tuple[Path, ...], out: Path, test: Path | None, dev: Path | None, patience: int | None,
    features: str | None, system: str, C: float | None,
    lam: float | None, margin: float | None, search: bool, seen: bool | None, max_weights: int | None, rules: bool,
    folds: int, scheme: str, columns: str | None, label_column: int,
    min_count: int, hashed: int | None, gazetteer: dict[str, str], clusters: dict[str, str], tol: float | None,
    jobs: int, seed: int, quiet: bool, repair: bool, separator: str | None, comment: str | None,
) -> None:  # fmt: skip
    """Learn a tagger from column files: a token a line, its label last, a blank line between sentences.

    The default is the model of Tagger(): l2crf with a margin, a temperature for its probabilities, and the score of
    O that has the best F1 on sentences held out. Constants that are not given (--C, --lam) are chosen by
    cross-validation: those with the best F1 of spans, or the most right labels where labels have no letters B and I.

    \b
    Examples:
      maxendnet train train.txt -o names.medn
      maxendnet train train.txt -o names.medn --test dev.txt --jobs 2
      maxendnet train train.txt -o names.medn --no-search
      maxendnet train train.txt -o names.medn --lam 0.1 --margin 5
      maxendnet train train.txt -o chunks.medn --features template.txt --model m3n --C 0.1
      maxendnet train train.txt -o small.medn --model lapmedn --max-weights 50000
      cat *.conll | maxendnet train - -o names.medn --lam 0.3
    """
    from maxendnet.text.features.templates import Template
    from maxendnet.text.features.token_features import TokenFeatures
    from maxendnet.text.reading.columns import Columns
    from maxendnet.text.reading.tag_schemes import read_tags
    from maxendnet.text.results.scores import span_scores
    from maxendnet.text.tagger import Tagger

    began = time.perf_counter()
    if jobs == 0:
        raise click.BadParameter("give the number of threads, or -1 for all processors.", param_hint="--jobs")
    if max_weights is not None and seen is False:
        raise click.UsageError("--max-weights leaves weights of seen pairs out; leave --all-pairs away.")
    if margin is not None and system != "l2crf":
        raise click.UsageError(f"--margin is given, and it is an option of l2crf, not of {system}.")
    search = needs_search(system, C, lam) and search
    parts = [split(read(path, separator, comment), columns, label_column) for path in files]
    X = Columns.joined([columns for columns, _ in parts])
    y, chosen = read_tags((labels for _, rows in parts for labels in rows), scheme, repair, X.place)
    template = template_of(features, X)
    joined = Template.parse(template_text(template)).bigram
    model = estimator_of(system, C, lam, margin, y if rules else None, chosen, tol, joined, jobs, seed)
    tagger = Tagger(
        TokenFeatures(template, min_count, hashed, gazetteer or None, clusters or None), model, chosen, search=search,
        cv=folds, patience=patience, pairs={None: "auto", True: "seen", False: "all"}[seen], max_weights=max_weights,
        n_jobs=jobs, random_state=seed, verbose=0 if quiet else 1, repair=repair,
    )  # fmt: skip
    with warnings_as_notes():
        tagger.fit(X, y, None if dev is None else split(read(dev, separator, comment), columns, label_column))
    tagger.save(out)
    fitted = tagger.estimator_
    constants = ", ".join(
        f"{name}={getattr(fitted, name):g}" for name in ("C", "lam", "margin") if hasattr(fitted, name)
    )
    how = ""
    if tagger.search_ is not None:
        measure = "right labels" if chosen == "LABELS" else "F1 of spans"
        how = f" (chosen by {folds}-fold cross-validation: {measure} {tagger.search_.best_score_:.4f})"
    click.echo(f"{type(fitted).__name__}({constants}){how}")
    click.echo(
        f"{len(y)} sentences, {X.n_tokens} tokens, {len(fitted.classes_)} labels ({chosen}), "
        f"{fitted.n_features_in_} features, {len(fitted.model_.weights)} weights"
    )
    click.echo(
        f"gap {fitted.trace_[-1].gap:.1e} after {fitted.n_passes_} passes; {time.perf_counter() - began:.1f} s; "
        f"{out}: {out.stat().st_size / 1e6:.2f} MB"
    )
    if test is not None:
        new_X, new_y = split(read(test, separator, comment), columns, label_column)
        truth, _ = read_tags(new_y, chosen, repair, new_X.place)
        click.echo(str(span_scores(truth, tagger.predict(new_X), chosen)))


def split(found: Any, columns: str | None, label: int) -> tuple[Any, list[list[str]]]:
    """Columns with features, and labels."""
    X, y = found.split(label)
    if columns is None:
        return X, y
    try:
        numbers = [int(number) for number in columns.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{columns!r} is not numbers with commas between, such as 0,1", param_hint="--columns"
        ) from None
    return found.select(numbers), y


def template_of(features: str | None, X: Any) -> str:
    """The requested template, or the default for the columns."""
    from maxendnet.text.features.templates import READY, read_template
    from maxendnet.text.features.token_features import default_template

    if features is None:
        return default_template(X)
    return features if features in READY else read_template(features)


def template_text(template: str) -> str:
    from maxendnet.text.features.templates import READY

    return READY.get(template, template)


def needs_search(system: str, C: float | None, lam: float | None) -> bool:
    """Whether constants are missing; raises for one that the system does not have."""
    wanted = {"l2crf": ("lam",), "l1crf": ("lam",), "crf": (), "m3n": ("C",), "l1m3n": ("C",), "lapmedn": ("C", "lam")}[
        system
    ]
    given = {name for name, value in (("C", C), ("lam", lam)) if value is not None}
    for name in given - set(wanted):
        has = f"has --{' and --'.join(wanted)}" if wanted else "has no constants"
        raise click.UsageError(f"--{name} is given, and {system} {has}.")
    missing = set(wanted) - given
    if given and missing:
        raise click.UsageError(f"{system} has two constants; give --{missing.pop()} as well, or neither.")
    return bool(missing)


def estimator_of(
    system: str, C: float | None, lam: float | None, margin: float | None, y: Any, scheme: str,
    tol: float | None, joined: bool, jobs: int, seed: int,
) -> Any:  # fmt: skip
    """The estimator of a name, or the settings of the default one of `Tagger`."""
    from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN
    from maxendnet.rules import bio, bioes
    from maxendnet.structures import Chain, Independent
    from maxendnet.text.reading.spans import forbidden_pairs
    from maxendnet.text.tagger import default_model

    rules_of: dict[str, Any] = {"IOB2": bio, "BIOES": bioes, "BMES": lambda: bioes(inside="M")}

    options: dict[str, Any] = {"tol": 1e-2 if tol is None else tol, "max_passes": 300}
    constants = {name: value for name, value in (("C", C), ("lam", lam), ("margin", margin)) if value is not None}
    if system == "l2crf" and not y:
        return options | constants
    structure: Any = Independent()
    if joined:
        structure = Chain()
        if y and scheme in rules_of:
            structure.rules = [rules_of[scheme]()]
        elif y:
            structure.forbidden = forbidden_pairs(sorted({tag for tags in y for tag in tags}), scheme) or None
    options |= {"structure": structure, "n_jobs": jobs, "random_state": seed}
    if system == "l2crf":
        default = default_model()
        constants = {"lam": default.lam, "margin": default.margin} | constants
    kinds = {"l2crf": L2CRF, "l1crf": L1CRF, "crf": CRF, "m3n": M3N, "l1m3n": L1M3N, "lapmedn": LapMEDN}
    return kinds[system](**constants, **options)


# ---- tag -------------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Label new sentences.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=PATH, default="-")
@click.option("-o", "--out", type=PATH, default="-", help="Where to write.  [default: the standard output]")
@click.option("--text", is_flag=True, help="The input is plain text: a sentence a line, spaces between tokens.")
@click.option(
    "--format", "form", type=click.Choice(["columns", "spans", "json"]), default="columns", show_default=True,
    help="The input with a column for the label; a line for every span; or a JSON object for every sentence.",
)  # fmt: skip
@click.option("--confidence", is_flag=True, help="Also a column with the probability of the label.")
@click.option(
    "--top", metavar="N", type=click.IntRange(min=1), help="With json: also the N best labellings with probabilities."
)
@reading
def tag(
    model: Path, file: Path, out: Path, text: bool, form: str, confidence: bool, top: int | None, separator: str | None,
    comment: str | None,
) -> None:  # fmt: skip
    """Label the sentences of a column file, or of plain text.

    Further columns of the input, such as a true label, are kept and not looked at.

    \b
    Examples:
      maxendnet tag names.medn new.txt > labelled.txt
      echo "Ada met Bob in Paris ." | maxendnet tag names.medn --text
      maxendnet tag names.medn new.txt --format spans
      maxendnet tag names.medn test.txt | maxendnet evaluate -
    """
    from maxendnet.text.reading.columns import Columns, columns_text, text_of
    from maxendnet.text.tagger import Tagger

    tagger = Tagger.load(model)
    if text:
        content, _ = text_of(file)
        found = Columns.of([line.split() for line in content.split("\n") if line.strip()])
    else:
        found = read(file, separator, comment, empty=True)
    n_columns = tagger.features_.n_columns_in_
    if found.n_tokens and found.n_columns < n_columns:
        raise TextError(
            f"{found.source or 'the text'}: {found.n_columns} columns, and the tagger looks at {n_columns}."
        )
    blocks = []
    X = found.select(range(n_columns)) if found.n_tokens else found
    at_once = 2000
    for first in progress_bar(range(0, len(X), at_once), desc="tag", leave=False):
        part, whole = X[first : first + at_once], found[first : first + at_once]
        if form == "columns":
            blocks.append(columns_text(whole, *_label_columns(tagger, part, confidence)))
        elif form == "spans":
            blocks.append(_span_lines(tagger, part, first))
        else:
            blocks.append(_json_lines(tagger, part, top))
    joined = ("\n" if form == "columns" else "").join(blocks)
    _write(out, joined)


def _write(out: Path, text: str) -> None:
    if str(out) == "-":
        click.echo(text, nl=False)
        return
    from maxendnet.utils.atomic_write import write_whole

    write_whole(out, lambda file: file.write(text.encode()))


def _label_columns(tagger: Any, X: Any, confidence: bool) -> list[list[list[str]]]:
    """The labels of all sentences, and the probabilities of these labels."""
    if not confidence:
        return [[list(map(str, labels)) for labels in tagger.predict(X)]]
    sure = tagger.predict_confidence(X)
    return [[list(map(str, one.labels)) for one in sure], [[f"{p:.4f}" for p in one.tokens] for one in sure]]


def _span_lines(tagger: Any, X: Any, first: int) -> str:
    lines = []
    for i, (words, spans) in enumerate(zip(X.column(0), tagger.predict_spans(X)), first):
        for start, end, kind, probability in spans:
            lines.append(f"{i}\t{start}\t{end}\t{kind}\t{probability:.4f}\t{' '.join(words[start:end])}\n")
    return "".join(lines)


def _json_lines(tagger: Any, X: Any, top: int | None) -> str:
    words = X.column(0)
    best = tagger.predict_top(X, top) if top is not None else [None] * len(words)
    rows = zip(words, tagger.predict_confidence(X), tagger.predict_spans(X), best)
    lines = []
    for tokens, sure, spans, ranked in rows:
        one: dict[str, Any] = {
            "tokens": tokens, "labels": sure.labels, "confidence": [round(float(p), 6) for p in sure.tokens],
            "probability": round(sure.sequence, 6),
            "spans": [
                {**span._asdict(), "probability": round(span.probability, 6),
                 "text": " ".join(tokens[span.start : span.end])}
                for span in spans
            ],
        }  # fmt: skip
        if ranked is not None:
            one["top"] = [{"probability": round(r.probability, 6), "labels": r.labels} for r in ranked]
        lines.append(json.dumps(one, ensure_ascii=False) + "\n")
    return "".join(lines)


# ---- evaluate --------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Precision, recall and F1 of spans.")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="[MODEL] FILE")
@schemes
@click.option("--strict", is_flag=True, help="Spans that break the scheme do not count.")
@click.option(
    "--label", "label_column", type=int, default=-1, show_default=True, help="With a model: column of the truth."
)
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
@click.option("--at-least", type=float, help=f"End with exit code {BELOW} where F1 (0 to 1) is lower.")
@reading
def evaluate(
    files: tuple[Path, ...], scheme: str, repair: bool, strict: bool, label_column: int, as_json: bool,
    at_least: float | None, separator: str | None, comment: str | None,
) -> None:  # fmt: skip
    """Compare labels with the truth, as conlleval does.

    With a model, FILE has the true label in its last column. Without, the last two columns are the true and the
    predicted label: what maxendnet tag writes for a file with labels.

    \b
    Examples:
      maxendnet evaluate names.medn test.txt
      maxendnet evaluate names.medn test.txt --at-least 0.85 && echo fine
      maxendnet tag names.medn test.txt | maxendnet evaluate -
    """
    from maxendnet.text.reading.tag_schemes import read_tags
    from maxendnet.text.results.scores import span_scores
    from maxendnet.text.tagger import Tagger

    if len(files) > 2:
        raise click.UsageError("give a model and a file, or a file alone.")
    found = read(files[-1], separator, comment)
    if len(files) == 2:
        tagger = Tagger.load(files[0])
        X, truth = found.split(label_column)
        predicted = tagger.predict(X.select(range(tagger.features_.n_columns_in_)))
        scheme = tagger.scheme_ if scheme == "auto" else scheme
    else:
        if found.n_columns < 3:
            raise TextError(
                f"{found.source}: {found.n_columns} columns; a token, its true label and the predicted one are needed, "
                f"or give a model first."
            )
        truth, predicted = found.column(-2), found.column(-1)
    truth, chosen = read_tags(truth, scheme, repair, found.place)
    scores = span_scores(truth, predicted, chosen, strict, repair)
    click.echo(json.dumps(scores.as_dict(), indent=2) if as_json else str(scores))
    if at_least is not None and scores.f1 < at_least:
        click.echo(f"F1 {scores.f1:.4f} is below {at_least:g}", err=True)
        raise SystemExit(BELOW)


# ---- explain ---------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Why these labels.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("sentence", nargs=-1)
@click.option(
    "--top", type=click.IntRange(min=1), default=10, show_default=True, help="Features for each label or token."
)
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page instead.")
def explain(model: Path, sentence: tuple[str, ...], top: int, as_json: bool, html: Path | None) -> None:
    """Show the largest weights of a tagger, or why the tokens of a sentence get their labels.

    Columns of a token are joined with a tab or a slash: dog/NN.

    \b
    Examples:
      maxendnet explain names.medn
      maxendnet explain names.medn --html weights.html
      maxendnet explain names.medn Ada met Bob in Paris
      maxendnet explain chunks.medn the/DT dog/NN --json
    """
    from maxendnet.text.tagger import Tagger

    tagger = Tagger.load(model)
    tokens: Any = None
    if sentence:
        words = [word for part in sentence for word in part.split(" ") if word]
        n = tagger.features_.n_columns_in_
        tokens = [
            tuple(word.split("\t") if "\t" in word else word.rsplit("/", n - 1)) if n > 1 else word for word in words
        ]
        wrong = next((word for word, token in zip(words, tokens) if n > 1 and len(token) != n), None)
        if wrong is not None:
            raise TextError(f"{wrong!r} has not {n} columns, such as dog/NN; the tagger looks at {n}.")
    found = tagger.explain(tokens, top)
    if html is not None:
        found.to_html(html)
        click.echo(f"Written: {html}", err=True)
    else:
        click.echo(found.to_json() if as_json else str(found))
