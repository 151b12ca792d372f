"""The commands ``maxendnet train | tag | evaluate | explain``.

Results go to stdout, progress and notes to stderr.
"""

from __future__ import annotations

import errno
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from maxendnet.text.reading.errors import TextError
from maxendnet.utils.progress import progress_bar

SYSTEMS: dict[str, tuple[str, list[str]]] = {
    "l2crf": ("L2CRF", ["lam"]),
    "l1crf": ("L1CRF", ["lam"]),
    "crf": ("CRF", []),
    "m3n": ("M3N", ["C"]),
    "lapmedn": ("LapMEDN", ["C", "lam"]),
    "l1m3n": ("L1M3N", ["C"]),
}
"""Estimator and hyper-parameters of each value of ``--model``."""
PATH = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
POSITIVE = click.IntRange(min=1)
BELOW = 3
"""Exit code of ``evaluate --at-least`` if F1 is lower."""

SAMPLES = ("train.txt", "test.txt")
INTERRUPTED = 130
"""Exit code of a training that was interrupted, as for SIGINT."""
SCORED_BYTES = 1 << 22
"""Number of bytes that ``evaluate`` scores at a time. The first block determines the tag scheme."""


class Errors(click.Command):
    """Command that shows defaults in its help, and prints expected errors as messages without a traceback."""

    def __init__(self, name: str | None, **options: Any) -> None:
        super().__init__(name, context_settings={"show_default": True}, **options)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise click.ClickException(
                f"{error.filename}: {error.strerror}." if error.filename else str(error)
            ) from error
        except (ValueError, ModuleNotFoundError) as error:  # TextError and ModelFileError are subclasses of ValueError
            raise click.ClickException(str(error)) from error


def echo(text: str, nl: bool = True) -> None:
    """Write text to the standard output, without a buffer."""
    try:
        click.echo(text, nl=nl)
    except OSError as error:
        error.filename = error.filename or "<stdout>"
        raise


def note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show each distinct warning of the library once, as a note on stderr."""
    shown = set()

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        if "maxendnet" in filename and str(message) not in shown:
            shown.add(str(message))
            note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def file_options(function: Any) -> Any:
    """Add the options of commands that read a column file."""
    for option in (
        click.option("--comment", help="Prefix of comment lines, which are skipped; for instance '# '."),
        click.option(
            "--separator",
            help="Column separator; \\t is a tab.  [default: tab if the first line contains one, else spaces]",
        ),
    ):
        function = option(function)
    return function


def tag_options(function: Any) -> Any:
    """Add the options of commands that read tags."""
    for option in (
        click.option(
            "--repair",
            is_flag=True,
            help="Correct misspelt tags (0 for O, b-PER or B_PER for B-PER), and rewrite misplaced tags by the rules "
            "of the scheme. By default misspelt tags raise an error.",
        ),
        click.option(
            "--scheme",
            default="auto",
            help="Tag scheme: IOB1, IOB2, BIOES, BILOU, BMES, or LABELS for labels that are not span tags; auto "
            "detects it.",
        ),
    ):
        function = option(function)
    return function


def read(path: Path | str, separator: str | None, comment: str | None) -> Any:
    from maxendnet.text.reading.columns import read_columns

    return read_columns(path, unescaped(separator), comment=comment)


def unescaped(separator: str | None) -> str | None:
    """Return a separator with a tab instead of ``\\t``."""
    return None if separator is None else separator.replace("\\t", "\t")


def named_paths(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    paths = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not name or not path:
            raise click.BadParameter(f"{value!r} is not NAME=FILE", ctx, param)
        paths[name] = path
    return paths


def check_folder(path: Path) -> None:
    """Raise ``FileNotFoundError`` if the folder of a file to write does not exist."""
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "The folder does not exist; create it, or use another path", path.parent)


# ---- sample ----------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Write small example files for train, tag and evaluate.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def sample(folder: Path) -> None:
    """Write train.txt and test.txt, sentences with names of people, places and organisations.

    They are column files: one token per line with its label, and a blank line between sentences. Existing files are not
    replaced.

    \b
    Examples:
      maxendnet sample
      maxendnet sample example && maxendnet train example/train.txt -o names.medn --test example/test.txt
    """
    from importlib.resources import files

    from maxendnet.utils.atomic_write import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    contents = {folder / name: files("maxendnet.text").joinpath("sample", name).read_bytes() for name in SAMPLES}
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise FileExistsError(errno.EEXIST, "The file exists and is not replaced; pass another folder", path)
    for path, content in contents.items():
        write_whole(path, lambda file, content=content: file.write(content))  # type: ignore[misc]
        n_sentences = content.count(b"\n\n") + 1
        echo(f"{path}: {n_sentences} sentences")


# ---- train -----------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Train a tagger on column files.")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Model file.")
@click.option("--test", type=PATH, help="Column file on which the trained tagger is evaluated.")
@click.option("--dev", type=PATH, help="Column file to score during training.")
@click.option(
    "--patience", type=POSITIVE, help="With --dev: stop after this number of evaluations without a better score."
)
@click.option(
    "--features",
    help="Built-in template (words, tagged_words, chunks, characters), or a template file of CRF++.  [default: "
    "tagged_words for several columns, characters if every token is a single character, else words]",
)
@click.option("--model", "system", type=click.Choice(SYSTEMS), default="l2crf", help="Type of model.")
@click.option("--C", "C", type=float, help="Weight of the loss, for m3n, lapmedn and l1m3n.")
@click.option("--lam", type=float, help="Parameter of the prior, for l2crf, l1crf and lapmedn.")
@click.option(
    "--margin", type=float,
    help="For l2crf: margin by which the correct labels must win in training; 0 is plain likelihood.  [default: 3]"
)  # fmt: skip
@click.option(
    "--search/--no-search", default=True,
    help="Choose --C and --lam by cross-validation if they are not passed, or use the defaults (l2crf: --lam 0.1)."
)  # fmt: skip
@click.option(
    "--seen/--all-pairs", default=None,
    help="Use weights only for (feature, label) pairs that occur in the data, or for all pairs.  [default: all, "
    "for at most 16 labels and five million pairs]"
)  # fmt: skip
@click.option(
    "--max-weights", type=POSITIVE,
    help="For a small model: keep only this number of feature weights, those with the largest effect."
)  # fmt: skip
@click.option("--rules", is_flag=True, help="Allow only tag sequences that follow the scheme.")
@click.option("--folds", type=click.IntRange(min=2), default=3, help="Number of cross-validation folds.")
@tag_options
@click.option("--columns", help="Feature columns, numbered from 0, for instance 0,1.  [default: all except the label]")
@click.option("--label", "label_column", type=int, default=-1, help="Label column.")
@click.option("--min-count", type=POSITIVE, default=1, help="Drop features that occur less often.")
@click.option("--hashed", type=POSITIVE, help="Hash features into this number of columns.")
@click.option("--gazetteer", multiple=True, callback=named_paths, help="NAME=FILE: list of phrases, one per line.")
@click.option("--clusters", multiple=True, callback=named_paths, help="NAME=FILE: words and their clusters.")
@click.option("--tol", type=float, help="Relative duality gap at which training stops.  [default: 0.01]")
@click.option("--jobs", type=int, default=1, help="Threads, and folds in parallel; -1 uses all processors.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Random seed.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@file_options
def train(
    files: tuple[Path, ...], out: Path, test: Path | None, dev: Path | None, patience: int | None,
    features: str | None, system: str, C: float | None,
    lam: float | None, margin: float | None, search: bool, seen: bool | None, max_weights: int | None, rules: bool,
    folds: int, scheme: str, columns: str | None, label_column: int,
    min_count: int, hashed: int | None, gazetteer: dict[str, str], clusters: dict[str, str], tol: float | None,
    jobs: int, seed: int, quiet: bool, repair: bool, separator: str | None, comment: str | None,
) -> None:  # fmt: skip
    """Train a tagger on column files.

    A file contains one token per line, with its label in the last column, and a blank line between sentences.

    The default model is l2crf with a margin. Held-out sentences are used to calibrate its probabilities, and to choose
    a bias of the label O for the best F1. If --C and --lam are not passed, they are chosen by cross-validation, for the
    best span F1, or the best token accuracy if labels are not span tags.

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
    from maxendnet.text.features.templates import READY, Template, read_template
    from maxendnet.text.features.token_features import TokenFeatures
    from maxendnet.text.reading.columns import Columns
    from maxendnet.text.reading.tag_schemes import read_tags
    from maxendnet.text.results.scores import span_scores
    from maxendnet.text.tool.interruptible import InterruptibleTagger, Interrupts

    start = time.perf_counter()
    if jobs == 0:
        raise click.BadParameter("expected the number of threads, or -1 for all processors.", param_hint="--jobs")
    if max_weights is not None and seen is False:
        raise click.UsageError("--max-weights requires weights for seen pairs only; remove --all-pairs.")
    if margin is not None and system != "l2crf":
        raise click.UsageError(f"--margin is an option of l2crf, not of {system}.")
    search = needs_search(system, C, lam) and search
    check_folder(out)
    parts = [split(read(path, separator, comment), columns, label_column) for path in files]
    X = Columns.joined([columns for columns, _ in parts])
    y, chosen = read_tags((labels for _, rows in parts for labels in rows), scheme, repair, X.place)
    labels = sorted({label for row in y for label in row})
    if len(labels) == 1:
        raise TextError(
            f"{files[0]}: all {X.n_tokens} tokens have the label {labels[0]!r}, so there is nothing to learn. If the "
            f"labels are in another column, pass its number: --label."
        )
    held_out = {}
    for path in (test, dev):
        if path is not None:
            held_out[path] = held_out_part(read(path, separator, comment), columns, label_column, X, chosen, repair)
    if search and 2 <= len(y) < folds:
        note(f"there are only {len(y)} sentences, so cross-validation has {len(y)} folds (--folds).")
        folds = len(y)
    template = "auto" if features is None else features if features in READY else read_template(features)
    joined = template in ("auto", *READY) or Template.parse(template).bigram
    interrupts = Interrupts(note)
    model = estimator_of(system, C, lam, margin, y if rules else None, chosen, tol, joined, jobs, seed)
    if isinstance(model, dict):
        model["callback"] = interrupts.callback()
    else:
        model.set_params(callback=interrupts.callback())
    tagger = InterruptibleTagger(
        TokenFeatures(template, min_count, hashed, gazetteer or None, clusters or None), model, chosen, search=search,
        cv=folds, patience=patience, pairs={None: "auto", True: "seen", False: "all"}[seen], max_weights=max_weights,
        n_jobs=jobs, random_state=seed, verbose=0 if quiet else 1, repair=repair,
    )  # fmt: skip
    tagger.interrupts = interrupts
    with warnings_as_notes():
        tagger.fit(X, y, None if dev is None else held_out[dev])
    tagger.save(out)
    fitted = tagger.estimator_
    constants = ", ".join(
        f"{name}={getattr(fitted, name):g}" for name in ("C", "lam", "margin") if hasattr(fitted, name)
    )
    how = ""
    if tagger.search_ is not None:
        measure = "accuracy" if chosen == "LABELS" else "span F1"
        interrupted = " that was interrupted" if "search" in interrupts.stages else ""
        how = f" (chosen by {folds}-fold cross-validation{interrupted}: {measure} {tagger.search_.best_score_:.4f})"
    echo(f"{type(fitted).__name__}({constants}){how}")
    echo(
        f"{len(y)} sentences, {X.n_tokens} tokens, {len(fitted.classes_)} labels ({chosen}), "
        f"{fitted.n_features_in_} features, {len(fitted.model_.weights)} weights"
    )
    echo(
        f"gap {fitted.trace_[-1].gap:.1e} after {fitted.n_passes_} passes; {time.perf_counter() - start:.1f} s; "
        f"{out}: {out.stat().st_size / 1e6:.2f} MB"
    )
    if test is not None:
        new_X, truth = held_out[test]
        note_unseen(Counter(label for row in truth for label in row), tagger, test)
        echo(str(span_scores(truth, tagger.predict(new_X), chosen)))
    if interrupts.stages:
        click.echo(f"Interrupted: {out} contains the best model so far, which is complete and can be used.", err=True)
        raise SystemExit(INTERRUPTED)


def held_out_part(
    content: Any, columns: str | None, label: int, X: Any, scheme: str, repair: bool
) -> tuple[Any, list[list[str]]]:
    """Return the sentences and tags of a file for evaluation, checked before the fit."""
    from maxendnet.text.reading.tag_schemes import read_tags

    new_X, y = split(content, columns, label)
    if new_X.n_columns != X.n_columns:
        raise TextError(
            f"{content.source}: {new_X.n_columns} feature columns, but the training file has {X.n_columns}; pass "
            f"files with the same columns."
        )
    return new_X, read_tags(y, scheme, repair, new_X.place)[0]


def note_unseen(counts: Counter[str], tagger: Any, path: Path) -> None:
    """Note labels of a file that did not occur in training."""
    from maxendnet.text.reading.tag_schemes import listed

    tags = set(tagger.classes_ if tagger.inner_ is None else tagger.inner_.names)
    unseen = Counter({label: n for label, n in counts.items() if label not in tags})
    if unseen:
        labels = listed([f"{label} ({n})" for label, n in unseen.most_common()])
        note(
            f"{path}: {unseen.total()} tokens have labels that did not occur in training, so the tagger cannot predict "
            f"them: {labels}."
        )


def split(content: Any, columns: str | None, label: int) -> tuple[Any, list[list[str]]]:
    """Split the content of a file into feature columns and labels."""
    X, y = content.split(label)
    if columns is None:
        return X, y
    try:
        numbers = [int(number) for number in columns.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{columns!r} is not a list of numbers separated by commas, such as 0,1", param_hint="--columns"
        ) from None
    return content.select(numbers), y


def needs_search(system: str, C: float | None, lam: float | None) -> bool:
    """Whether hyper-parameters of a system must be chosen by cross-validation.

    Raise ``UsageError`` for hyper-parameters that the system does not have.
    """
    constants = SYSTEMS[system][1]
    given = [name for name, value in (("C", C), ("lam", lam)) if value is not None]
    missing = [name for name in constants if name not in given]
    for name in given:
        if name not in constants:
            has = f"has --{' and --'.join(constants)}" if constants else "has no hyper-parameters"
            raise click.UsageError(f"--{name} is not an option of {system}, which {has}.")
    if given and missing:
        raise click.UsageError(f"{system} has two hyper-parameters; pass --{missing[0]} as well, or neither.")
    return bool(missing)


def estimator_of(
    system: str, C: float | None, lam: float | None, margin: float | None, y: Any, scheme: str,
    tol: float | None, joined: bool, jobs: int, seed: int,
) -> Any:  # fmt: skip
    """Return the estimator of a system, or settings of the default model.

    With tags ``y``, only tag sequences that follow the scheme are learned and predicted.
    """
    import maxendnet
    from maxendnet.structures import Chain, Independent
    from maxendnet.text.tagger import default_model

    options = {"C": C, "lam": lam, "margin": margin, "tol": 1e-2 if tol is None else tol, "max_passes": 300}
    settings: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if system == "l2crf":
        if not y:
            return settings
        default = default_model()
        settings = {"lam": default.lam, "margin": default.margin} | settings
    structure = (Chain(**scheme_rules(y, scheme)) if y else Chain()) if joined else Independent()
    return getattr(maxendnet, SYSTEMS[system][0])(structure=structure, n_jobs=jobs, random_state=seed, **settings)


def scheme_rules(y: Any, scheme: str) -> dict[str, Any]:
    """Return the options of `Chain` that enforce a tag scheme."""
    from maxendnet.rules import bio, bioes
    from maxendnet.text.reading.spans import forbidden_pairs

    rules = {"IOB2": bio(), "BIOES": bioes(), "BMES": bioes(inside="M")}
    if scheme in rules:
        return {"rules": [rules[scheme]]}
    return {"forbidden": forbidden_pairs(sorted({tag for tags in y for tag in tags}), scheme) or None}


# ---- tag -------------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Label new sentences.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=PATH, default="-")
@click.option("-o", "--out", type=PATH, default="-", show_default="standard output", help="File to write.")
@click.option(
    "--text",
    is_flag=True,
    help="The input is plain text, one sentence per line. Spans and JSON have character offsets.",
)
@click.option(
    "--tokens", type=click.Choice(["auto", "words", "characters", "spaces"]), default="auto",
    help="With --text: words and punctuation, single characters, or text between spaces; auto is characters for the "
    "template characters, and words otherwise."
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["columns", "spans", "json"]), default="columns",
    help="columns: the input with a label column; spans: one line per span; json: one JSON object per sentence."
)  # fmt: skip
@click.option("--confidence", is_flag=True, help="Add a column with the probability of each label.")
@click.option(
    "--top", metavar="N", type=POSITIVE, help="With --format json: also the N best labellings with probabilities."
)
@file_options
def tag(
    model: Path, file: Path, out: Path, text: bool, tokens: str, form: str, confidence: bool, top: int | None,
    separator: str | None, comment: str | None,
) -> None:  # fmt: skip
    """Label the sentences of a column file, or of plain text.

    Additional columns of the input, such as a true label, are copied to the output and otherwise ignored. Each sentence
    is written as soon as it is labelled.

    \b
    Examples:
      maxendnet tag names.medn new.txt > labelled.txt
      echo "Ada met Bob in Paris." | maxendnet tag names.medn --text
      maxendnet tag names.medn new.txt --format spans
      maxendnet tag names.medn test.txt | maxendnet evaluate -
    """
    from maxendnet.text.tagger import Tagger

    tagger = Tagger.load(model)
    if tokens != "auto" and not text:
        raise click.UsageError("--tokens is an option of --text.")
    if tokens == "auto":
        tokens = "characters" if tagger.features_.template_name_ == "characters" else "words"
    blocks = text_blocks_of(file, tokens) if text else map(Block, columns_of(file, separator, comment))
    show = str(out) != "-" or not sys.stdout.isatty()
    _write(out, _labelled(tagger, blocks, form, confidence, top, show))


def columns_of(path: Path, separator: str | None, comment: str | None, block_bytes: int | None = None) -> Iterator[Any]:
    """Yield the sentences of a column file as they arrive, or in blocks of ``block_bytes``."""
    from maxendnet.text.reading.columns import stream_columns

    return stream_columns(path, unescaped(separator), comment=comment, block_bytes=block_bytes)


class Block(NamedTuple):
    """Sentences that are labelled together."""

    columns: Any
    lines: list[str] | None = None
    """The line of each sentence, for plain text."""
    tokens: list[Any] | None = None
    """The tokens of each line, with character offsets."""


def text_blocks_of(path: Path, by: str) -> Iterator[Block]:
    """Yield the sentences of plain text as they arrive, one per line."""
    from maxendnet.text.reading.columns import Columns
    from maxendnet.text.reading.text_files import name_of, text_blocks
    from maxendnet.text.reading.tokenizer import tokenize

    for text in text_blocks(path, name_of(path)):
        pairs = [(line, tokenize(line, by)) for line in text.split("\n")]
        lines, tokens = [line for line, row in pairs if row], [row for _, row in pairs if row]
        if tokens:
            yield Block(Columns.of([[token.text for token in row] for row in tokens]), lines, tokens)


def _labelled(
    tagger: Any, blocks: Iterator[Block], form: str, confidence: bool, top: int | None, show: bool
) -> Iterator[str]:
    """Yield the output for each block of sentences."""
    from maxendnet.text.reading.columns import columns_text

    n_columns = tagger.features_.n_columns_in_
    first = 0
    with progress_bar(show=show, desc="tag", unit=" sentences", leave=False) as progress:
        for block in blocks:
            sentences = block.columns
            if sentences.n_columns < n_columns:
                raise TextError(
                    f"{sentences.source or 'the text'}: {sentences.n_columns} columns, but the tagger needs "
                    f"{n_columns}."
                )
            X = sentences.select(range(n_columns))
            if form == "columns":
                # the blank line ends the last sentence for the next program of a pipe
                yield columns_text(sentences, *_label_columns(tagger, X, confidence)) + "\n"
            else:
                rows = _span_records(tagger, X, block)
                yield _span_lines(rows, first) if form == "spans" else _json_lines(tagger, X, block, rows, top)
            first += len(X)
            progress.update(len(X))


def _write(out: Path, texts: Iterator[str]) -> None:
    """Write texts one by one: a file atomically, the standard output without a buffer."""
    if str(out) == "-":
        for text in texts:
            echo(text, nl=False)
        return
    from maxendnet.utils.atomic_write import write_whole

    write_whole(out, lambda file: file.writelines(text.encode() for text in texts))


def _label_columns(tagger: Any, X: Any, confidence: bool) -> list[list[list[str]]]:
    """Return the label column and, if requested, a column of label probabilities."""
    if not confidence:
        return [[list(map(str, labels)) for labels in tagger.predict(X)]]
    predictions = tagger.predict_confidence(X)
    labels = [list(map(str, prediction.labels)) for prediction in predictions]
    return [labels, [[f"{p:.4f}" for p in prediction.tokens] for prediction in predictions]]


def _span_records(tagger: Any, X: Any, block: Block) -> list[list[dict[str, Any]]]:
    """Return the spans of each sentence, with character offsets for plain text."""
    sentences = []
    for i, (words, spans) in enumerate(zip(X.column(0), tagger.predict_spans(X))):
        records = []
        for span in spans:
            record = {**span._asdict(), "probability": round(span.probability, 6)}
            if block.lines is None or block.tokens is None:
                record["text"] = " ".join(words[span.start : span.end])
            else:
                start, end = block.tokens[i][span.start].start, block.tokens[i][span.end - 1].end
                record |= {"start_char": start, "end_char": end, "text": block.lines[i][start:end]}
            records.append(record)
        sentences.append(records)
    return sentences


def _span_lines(rows: list[list[dict[str, Any]]], first: int) -> str:
    lines = []
    for i, spans in enumerate(rows, first):
        for span in spans:
            cells = [i, span["start"], span["end"], span["type"], f"{span['probability']:.4f}"]
            if "start_char" in span:
                cells += [span["start_char"], span["end_char"]]
            lines.append("\t".join(map(str, [*cells, " ".join(span["text"].split())])) + "\n")
    return "".join(lines)


def _json_lines(tagger: Any, X: Any, block: Block, rows: list[list[dict[str, Any]]], top: int | None) -> str:
    words = X.column(0)
    best = tagger.predict_top(X, top) if top is not None else [None] * len(words)
    lines = []
    for i, (tokens, prediction, spans, ranked) in enumerate(zip(words, tagger.predict_confidence(X), rows, best)):
        record: dict[str, Any] = {}
        if block.lines is not None and block.tokens is not None:
            record = {"text": block.lines[i], "offsets": [[token.start, token.end] for token in block.tokens[i]]}
        record |= {
            "tokens": tokens, "labels": prediction.labels,
            "confidence": [round(float(p), 6) for p in prediction.tokens],
            "probability": round(prediction.sequence, 6),
            "spans": spans,
        }  # fmt: skip
        if ranked is not None:
            record["top"] = [{"probability": round(r.probability, 6), "labels": r.labels} for r in ranked]
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    return "".join(lines)


# ---- evaluate --------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Compute precision, recall and F1.")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="[MODEL] FILE")
@tag_options
@click.option("--strict", is_flag=True, help="Ignore spans that violate the scheme.")
@click.option("--label", "label_column", type=int, default=-1, help="With a model: column of the true label.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--at-least", type=float, help=f"Exit with code {BELOW} if F1 (0 to 1) is lower.")
@click.option(
    "--errors", is_flag=True,
    help="Also print each error, the most confident ones first: true and predicted span, probability, and with a model "
    "the features that decided."
)  # fmt: skip
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page with errors, confusion of types and boundaries, reliability and learning curve."
)  # fmt: skip
@click.option(
    "--train", "train_file", type=PATH,
    help="Training file of the model: also show the learning curve. This fits the model to parts of the file, which "
    "takes about twice the time of the training without search."
)  # fmt: skip
@file_options
def evaluate(
    files: tuple[Path, ...], scheme: str, repair: bool, strict: bool, label_column: int, as_json: bool,
    at_least: float | None, errors: bool, html: Path | None, train_file: Path | None,
    separator: str | None, comment: str | None,
) -> None:  # fmt: skip
    """Compare predicted with true labels, with the report of conlleval.

    With a model, the last column of FILE is the true label. Without a model, the last two columns are the true and the
    predicted label, as maxendnet tag writes them for a labelled file.

    Precision, recall and F1 count spans. With --scheme LABELS, for parts of speech for instance, a span is a run of one
    label, and the token accuracy is usually the number of interest.

    \b
    Examples:
      maxendnet evaluate names.medn test.txt
      maxendnet evaluate names.medn test.txt --at-least 0.85 && echo fine
      maxendnet evaluate names.medn test.txt --errors
      maxendnet evaluate names.medn test.txt --html errors.html --train train.txt
      maxendnet tag names.medn test.txt | maxendnet evaluate -
    """
    from maxendnet.text.reading.columns import Columns, no_tokens
    from maxendnet.text.reading.tag_schemes import read_tags
    from maxendnet.text.reading.text_files import name_of
    from maxendnet.text.results.error_report import ErrorReport
    from maxendnet.text.results.learning_curve import learning_curve
    from maxendnet.text.results.scores import SpanScores, span_scores
    from maxendnet.text.tagger import Tagger

    if len(files) > 2:
        raise click.UsageError("expected a model and a file, or only a file.")
    tagger = Tagger.load(files[0]) if len(files) == 2 else None
    if tagger is None and train_file is not None:
        raise click.UsageError("--train needs a model before the file.")
    if html is not None:
        check_folder(html)
    if tagger is not None and scheme == "auto":
        scheme = tagger.scheme_
    training = None if train_file is None else read(train_file, separator, comment).split(label_column)
    report = None
    sentences, parts, counts = [], [], Counter[str]()
    for content in progress_bar(columns_of(files[-1], separator, comment, SCORED_BYTES), desc="evaluate", leave=False):
        if tagger is not None:
            X, labels = content.split(label_column)
            X = X.select(range(tagger.features_.n_columns_in_))
            predicted = tagger.predict(X)
        elif content.n_columns >= 3:
            X, labels, predicted = content, content.column(-2), content.column(-1)
        else:
            raise TextError(
                f"{content.source}: {content.n_columns} columns; expected a token, its true label and its predicted "
                f"label, or a model before the file."
            )
        # the first block of the file determines its scheme
        truth, scheme = read_tags(labels, scheme, repair, content.place)
        counts.update(label for row in truth for label in row)
        if errors or html is not None or training is not None:
            report = report or ErrorReport(tagger, scheme, strict, repair)
            report.add(X, truth, predicted)
        else:
            parts.append(span_scores(truth, predicted, scheme, strict, repair))
        if training is not None:
            sentences.append((X, truth))
    if not counts:
        raise no_tokens(name_of(files[-1]))
    if tagger is not None:
        note_unseen(counts, tagger, files[-1])
    if training is not None and report is not None and tagger is not None:
        X, y = training[0].select(range(tagger.features_.n_columns_in_)), read_tags(training[1], scheme, repair)[0]
        new = Columns.joined([columns for columns, _ in sentences]), [row for _, rows in sentences for row in rows]
        # the file of a model does not contain the option, but only the pairs that have weights
        tagger.set_params(pairs="auto")
        with warnings_as_notes():
            report.curve = learning_curve(tagger, X, y, *new)
    scores = SpanScores.joined(parts) if report is None else report.scores
    if as_json:
        echo(json.dumps(scores.as_dict(), indent=2) if report is None else report.to_json(errors))
    else:
        echo(str(scores if report is None else report))
        for text in report.error_lines() if errors and report is not None else ():
            echo("\n" + text)
    if report is not None and html is not None:
        by = "" if tagger is None else f" of {files[0].name}"
        report.to_html(html, f"Errors{by} on {Path(name_of(files[-1])).name}")
        click.echo(f"Written: {html}", err=True)
    if at_least is not None and scores.f1 < at_least:
        click.echo(f"F1 {scores.f1:.4f} is below {at_least:g}", err=True)
        raise SystemExit(BELOW)


# ---- explain ---------------------------------------------------------------------------------------------------------


@click.command(cls=Errors, short_help="Explain a tagger, or the labels of a sentence.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("sentence", nargs=-1)
@click.option(
    "--top",
    type=POSITIVE,
    default=10,
    help="Number of features for each label or token.",
)
@click.option("--truth", help="True labels of the sentence, separated by spaces; wrong labels are compared with them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write an HTML page instead.")
def explain(
    model: Path, sentence: tuple[str, ...], top: int, truth: str | None, as_json: bool, html: Path | None
) -> None:
    """Explain a tagger by its largest weights, or the labels of a sentence.

    Separate the columns of a token by a tab or a slash: dog/NN.

    \b
    Examples:
      maxendnet explain names.medn
      maxendnet explain names.medn --html weights.html
      maxendnet explain names.medn Ada met Bob in Paris
      maxendnet explain names.medn Ada met Bob --truth "B-PER O B-PER"
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
            raise TextError(f"{wrong!r} does not have {n} columns; the tagger needs {n}, such as dog/NN.")
    if truth is not None and tokens is None:
        raise click.UsageError("--truth needs a sentence.")
    explanation = tagger.explain(tokens, top, None if truth is None else truth.split())
    if html is not None:
        explanation.to_html(html)
        click.echo(f"Written: {html}", err=True)
    else:
        echo(explanation.to_json() if as_json else str(explanation))
