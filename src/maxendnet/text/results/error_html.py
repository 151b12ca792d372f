"""The errors of a tagger as a self-contained HTML page without scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from maxendnet.text.reading.spans import LABELS
from maxendnet.text.results.charts import Axis, Series, chart
from maxendnet.text.results.learning_curve import CurvePoint, measure_of
from maxendnet.text.results.span_errors import KINDS, NONE

if TYPE_CHECKING:
    from maxendnet.text.results.error_report import Error, ErrorReport

MAX_ERRORS = 100
"""Maximum number of errors of each kind on the page."""
MAX_TYPES = 24
"""Maximum number of types in the confusion table."""
REST = "(others)"

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: #1d232b; font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 20px 16px 60px; }
h1 { font-size: 22px; margin: 0 0 2px; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 34px 0 4px; }
p { margin: 2px 0 10px; color: #4a5561; }
.numbers { display: flex; flex-wrap: wrap; gap: 10px; margin: 14px 0; }
.numbers div { border: 1px solid #d9dfe6; border-radius: 6px; padding: 6px 14px; min-width: 92px; }
.numbers b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; } .numbers span { color: #4a5561; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 0 40px; }
.pair > * { min-width: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: 3px 9px; text-align: right; font-weight: normal; white-space: nowrap; }
th { color: #4a5561; } th:first-child { text-align: left; } tbody th { color: #1d232b; }
thead th { border-bottom: 1px solid #c3ccd6; vertical-align: bottom; }
.heat thead th { text-align: center; } .heat td { min-width: 40px; text-align: center; border: 1px solid #fff; }
.heat tbody th { position: sticky; left: 0; background: #fff; }
td.zero { color: #aab3bd; }
.chart { width: 100%; max-width: 460px; height: auto; display: block; font-size: 12px; }
.chart text { fill: #4a5561; } .chart .rule { stroke: #e6eaee; }
.chart .diagonal { stroke: #8a95a1; stroke-dasharray: 4; }
.chart polyline { fill: none; stroke-width: 2; }
.chart .test polyline { stroke: #2f6fb5; } .chart .test circle { fill: #2f6fb5; } .chart .test text { fill: #2f6fb5; }
.chart .training polyline { stroke: #b0602a; } .chart .training circle { fill: #b0602a; }
.chart .training text { fill: #b0602a; }
details.kind { border-top: 1px solid #c3ccd6; padding: 8px 0; } details.kind > summary { font-weight: 600; }
summary { cursor: pointer; }
.error { border-left: 3px solid #d9dfe6; margin: 12px 0 16px; padding: 0 0 0 12px; }
.error .place { color: #4a5561; font-size: 13px; overflow-wrap: anywhere; }
.error .text { overflow-wrap: anywhere; margin: 2px 0; color: inherit; }
.error summary { color: #4a5561; font-size: 13px; }
.true { background: #d5edd9; border-radius: 3px; padding: 1px 4px; }
.predicted { background: #f8d9d2; border-radius: 3px; padding: 1px 4px; }
.both { background: #f3e3a8; border-radius: 3px; padding: 1px 4px; }
.reasons td { padding: 1px 8px 1px 0; } .reasons td + td { text-align: left; }
.reasons td:last-child { white-space: normal; overflow-wrap: anywhere; }
.bar { display: inline-block; height: 9px; border-radius: 2px; } .bar.for { background: #c2543c; }
.bar.against { background: #3d8a4c; }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def page(report: ErrorReport, title: str) -> str:
    """Return the HTML page of an `ErrorReport`."""
    body = [f"<h1>{escape(title)}</h1>", _numbers(report)]
    charts = []
    if report.reliability is not None:
        charts.append(_reliability(report))
    if report.curve:
        charts.append(_curve(report.curve, report.scheme))
    body += [f'<div class="pair">{"".join(charts)}</div>'] if charts else []
    body += [_kinds(report), _confusion(report), _boundaries(report), _errors(report)]
    return PAGE.format(title=escape(title), style=STYLE, body="\n".join(part for part in body if part))


def _unit(report: ErrorReport) -> str:
    return "tokens" if report.scheme == LABELS else "spans"


def _numbers(report: ErrorReport) -> str:
    scores = report.scores
    values = [
        ("F1", f"{100 * scores.f1:.2f}"), ("precision", f"{100 * scores.precision:.2f}"),
        ("recall", f"{100 * scores.recall:.2f}"), ("token accuracy", f"{100 * scores.accuracy:.2f}"),
        ("tokens", f"{scores.n_tokens:,}"), ("true spans", f"{scores.overall.n_true:,}"),
        ("errors", f"{len(report.errors):,}"),
    ]  # fmt: skip
    if scores.scheme == LABELS:
        values = [values[3], values[4], values[6]]
    return '<div class="numbers">' + "".join(f"<div><b>{b}</b><span>{a}</span></div>" for a, b in values) + "</div>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], css: str = "") -> str:
    """Return a table. Cells are HTML; the first one of a row is its heading."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(
        f"<tr><th>{row[0]}</th>" + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )  # fmt: skip
    return f'<div class="wide"><table class="{css}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _count(n: int) -> str:
    return f"<td>{n:,}</td>" if n else '<td class="zero">0</td>'


# ---- charts ----------------------------------------------------------------------------------------------------------

SHARES = [(k / 5, f"{k / 5:g}") for k in range(6)]


def _reliability(report: ErrorReport) -> str:
    table = report.reliability
    assert table is not None
    unit = _unit(report)
    rows = [
        (float(confidence), float(accuracy), int(count))
        for confidence, accuracy, count in zip(table.confidence, table.accuracy, table.count)
        if count
    ]
    largest = max(count for _, _, count in rows)
    series = Series(
        "", "test", [row[:2] for row in rows],
        [f"{count:,} {unit}: probability {p:.2f}, {100 * right:.0f} % right" for p, right, count in rows],
        [3 + 7 * float(np.sqrt(count / largest)) for _, _, count in rows],
    )  # fmt: skip
    svg = chart(Axis("probability", 0, 1, SHARES), Axis("share that is right", 0, 1, SHARES), [series], diagonal=True)
    return (
        f"<section><h2>Reliability</h2><p>Predicted {unit} by their probability. Points on the dashed line are "
        f"calibrated; larger points are more {unit}. Expected calibration error: {table.error:.3f}.</p>{svg}</section>"
    )


def _curve(points: Sequence[CurvePoint], scheme: str) -> str:
    measure, n = measure_of(scheme), [point.n_sentences for point in points]
    scores = [score for point in points for score in (point.training, point.test)]
    step = 0.1 if min(scores) >= 0.5 else 0.2
    low = step * np.floor(min(scores) / step)
    ticks = [(float(v), f"{100 * v:.0f}") for v in np.arange(low, 1 + 1e-9, step)]
    series = []
    for name in ("training", "test"):
        values = [(point.n_sentences, getattr(point, name)) for point in points]
        titles = [f"{name}: {100 * v:.2f} with {k:,} sentences" for k, v in values]
        series.append(Series(name, name, values, titles))
    svg = chart(
        Axis("training sentences", min(n), max(max(n), min(n) + 1), [(k, f"{k:,}") for k in n], is_log=True),
        Axis(measure, float(low), 1.0, ticks), series,
    )  # fmt: skip
    rows = [[f"{k:,}", f"{100 * a:.2f}", f"{100 * b:.2f}"] for k, a, b in points]
    return (
        f"<section><h2>Learning curve</h2><p>{measure} after fits to random parts of the training sentences, with the "
        f"same hyper-parameters. If the test curve still rises, more sentences help; if both curves are close "
        f"and low, other features do.</p>{svg}{_table(['sentences', 'training', 'test'], rows)}</section>"
    )


# ---- counts ----------------------------------------------------------------------------------------------------------


def _kinds(report: ErrorReport) -> str:
    if report.scheme == LABELS:  # the confusion table shows them all
        return ""
    counts = report.kinds
    shown = [kind for kind in KINDS if any(row[kind] for row in counts.values())]
    rows = [[escape(kind), *(_count(row[name]) for name in ("right", *shown))] for kind, row in counts.items()]
    return (
        f"<h2>Errors by type</h2><p>Kinds of errors by the true type. A wrong span that overlaps a true one is an "
        f"error of its type, its boundary, or both; other true spans are missed. Spurious spans count for their "
        f"predicted type.</p>{_table(['', 'right', *shown], rows)}"
    )


def _confusion(report: ErrorReport) -> str:
    """Return the table of true and predicted types, with the types of most errors if there are many."""
    wrong = Counter[str]()
    for error in report.errors:
        wrong.update({kind for kind in error.pair.types if kind != NONE})
    types = sorted({kind for pair in report.confusion for kind in pair} - {NONE})
    chosen = types if len(types) <= MAX_TYPES else sorted(kind for kind, _ in wrong.most_common(MAX_TYPES - 1))
    counts = Counter[tuple[str, str]]()
    for (a, b), n in report.confusion.items():
        a, b = (kind if kind in chosen or kind == NONE else REST for kind in (a, b))
        counts[a, b] += n
    rest = [REST] if len(chosen) < len(types) else []
    side, top = ([*chosen, *rest, *([NONE] if any(pair[k] == NONE for pair in counts) else [])] for k in (0, 1))
    largest = max((n for (a, b), n in counts.items() if a != b), default=0) or 1
    rows = []
    for a in side:
        cells = []
        for b in top:
            n = counts[a, b]
            if not n or a == b:
                cells.append(f"<td><b>{n:,}</b></td>" if n else '<td class="zero">&middot;</td>')
            else:
                cells.append(f'<td style="background: rgba(194,84,60,{0.12 + 0.6 * n / largest:.2f})">{n:,}</td>')
        rows.append([escape(a), *cells])
    name, note = "type", " The diagonal includes spans of the right type with wrong boundaries."
    if report.scheme == LABELS:
        name, note = "label", ""
    return (
        f"<h2>Confusion of {name}s</h2><p>Rows: true {name}. Columns: predicted {name}.{note}</p>"
        f"{_table(['', *map(escape, top)], rows, 'heat')}"
    )


def _boundaries(report: ErrorReport) -> str:
    counts = report.boundaries
    if not counts:
        return ""
    places = {-1: "too early", 0: "right", 1: "too late"}
    rows = [[f"start {places[a]}", *(_count(counts[a, b]) for b in places)] for a in places]
    head = ["", *(f"end {name}" for name in places.values())]
    return f"<h2>Boundaries</h2><p>Predicted spans that overlap a true one.</p>{_table(head, rows)}"


# ---- errors ----------------------------------------------------------------------------------------------------------


def _errors(report: ErrorReport) -> str:
    if not report.errors:
        return "<h2>Errors</h2><p>There are none.</p>"
    note = (
        "The most confident ones first: they are often errors of the annotation. Bars are contributions of features "
        "to the predicted label (red) and to the true one (green). "
        if report.tagger
        else ""
    )
    parts = [
        f'<h2>Errors</h2><p>{note}<span class="true">True</span>, <span class="predicted">predicted</span> and '
        f'<span class="both">both</span>.</p>'
    ]
    is_open = True
    for kind, n in report.n_by_kind.items():
        errors = [error for error in report.by_confidence if error.pair.kind == kind][:MAX_ERRORS]
        more = f"; the first {len(errors)} are shown" if len(errors) < n else ""
        parts.append(
            f'<details class="kind"{" open" if is_open else ""}><summary>{escape(kind)}: {n:,}{more}</summary>'
            f"{''.join(_error(report, error) for error in errors)}</details>"
        )
        is_open = False
    return "\n".join(parts)


def _error(report: ErrorReport, error: Error) -> str:
    true, predicted = error.pair
    probability = "" if error.probability is None else f" ({error.probability:.2f})"
    verdict = " ".join(
        f'{name} <span class="{css}">{escape(NONE if span is None else span.type)}</span>'
        for name, css, span in (("true", "true", true), ("predicted", "predicted", predicted))
    )
    return (
        f'<div class="error"><div class="place">{escape(error.place)}</div><div>{verdict}{probability}</div>'
        f'<p class="text">{_text(error)}</p>{_why(report, error)}</div>'
    )


def _text(error: Error) -> str:
    """Return the words around an error, with the spans highlighted."""
    first, last = error.context
    runs: list[tuple[str, list[str]]] = []
    for t in range(first, last):
        is_true, is_predicted = (span is not None and span.start <= t < span.end for span in error.pair)
        css = "both" if is_true and is_predicted else "true" if is_true else "predicted" if is_predicted else ""
        if not runs or runs[-1][0] != css:
            runs.append((css, []))
        runs[-1][1].append(escape(error.words[t]))
    texts = [f'<span class="{css}">{" ".join(words)}</span>' if css else " ".join(words) for css, words in runs]
    return f"{'&hellip; ' if first else ''}{' '.join(texts)}{' &hellip;' if last < len(error.words) else ''}"


def _why(report: ErrorReport, error: Error) -> str:
    why: Any = report.why(error)
    if why is None or why.runner_up is None:
        return ""
    largest = max((abs(reason.contribution) for reason in why.reasons), default=0.0) or 1.0
    rows = "".join(
        f"<tr><td>{value:+.2f}</td>"
        f'<td><span class="bar {"for" if value >= 0 else "against"}" style="width: '
        f'{max(1, round(60 * abs(value) / largest))}px"></span></td><td>{escape(name)}</td></tr>'
        for name, value in ((reason.name, reason.contribution) for reason in why.reasons)
    )
    return (
        f"<details><summary>why: <b>{escape(why.token)}</b> is {escape(why.label)} ({why.probability:.2f}), not "
        f'{escape(why.runner_up)} ({why.runner_up_probability:.2f})</summary><table class="reasons">{rows}</table>'
        f"</details>"
    )
