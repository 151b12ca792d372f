"""Explanations as a self-contained HTML page without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxendnet.text.results.explain import ModelExplanation, SentenceExplanation, TokenExplanation

MAX_LABELS = 60
"""Maximum number of labels in the table of label pairs."""

STYLE = """
.mx { font: 14px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; color: #1d232b; max-width: 1100px; }
.mx h2 { font-size: 17px; margin: 0 0 4px; } .mx h3 { font-size: 15px; margin: 22px 0 6px; }
.mx p { margin: 2px 0 10px; color: #55606d; }
.mx table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.mx td, .mx th { padding: 2px 8px; text-align: left; font-weight: normal; white-space: nowrap; background: none; }
.mx th { color: #55606d; } .mx td.n { text-align: right; } .mx td.bars { min-width: 92px; }
.mx .heat td { text-align: center; min-width: 34px; padding: 3px 5px; border: 1px solid #fff; }
.mx .heat th.down { writing-mode: vertical-rl; transform: rotate(180deg); padding: 6px 2px; }
.mx .grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 4px 26px; }
.mx .wide { overflow-x: auto; }
.mx .bar { display: inline-block; height: 9px; border-radius: 2px; vertical-align: middle; }
.mx .for { background: #2f6fb5; } .mx .against { background: #c2543c; }
.mx .sentence { display: flex; flex-wrap: wrap; gap: 6px 10px; margin: 10px 0 16px; }
.mx .token { text-align: center; } .mx .token b { display: block; font-weight: 600; }
.mx .token span { font-size: 12px; color: #55606d; }
.mx .token.in b { background: #dce9f7; border-radius: 3px; padding: 0 5px; }
.mx td.count { text-align: right; color: #55606d; } .mx .wrong { color: #b03a22; } .mx .token .wrong { color: #b03a22; }
.mx details { border-top: 1px solid #e3e7ec; padding: 5px 0; } .mx summary { cursor: pointer; }
.mx summary i { color: #55606d; font-style: normal; }
@media (prefers-color-scheme: dark) {
  .mx { color: #e4e8ee; } .mx p, .mx th, .mx .token span, .mx summary i { color: #9aa6b4; }
  .mx td.count { color: #9aa6b4; } .mx .wrong, .mx .token .wrong { color: #f0866e; }
  .mx .token.in b { background: #23415f; } .mx details { border-color: #343c46; }
  .mx .heat td { border-color: #15191e; }
}
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 24px; background: #fff; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #15191e; }} }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(explanation: Any) -> str:
    """Return the complete HTML page of an explanation."""
    title = "Why these labels" if hasattr(explanation, "tokens") else f"{explanation.estimator}: weights"
    return PAGE.format(title=escape(title), body=fragment(explanation))


def fragment(explanation: Any) -> str:
    """Return the page content without head and body, for a notebook."""
    body = _sentence(explanation) if hasattr(explanation, "tokens") else _model(explanation)
    return f'<div class="mx"><style>{STYLE}</style>\n{body}\n</div>'


def _counts_note(explanation: ModelExplanation) -> str:
    has_counts = any(weight.n_tokens is not None for weights in explanation.top.values() for weight in weights)
    return ", and the number of training tokens with the feature" if has_counts else ""


def _count(count: int | None) -> str:
    return "" if count is None else f'<td class="count" title="training tokens with this feature">{count:,}</td>'


def _bar(value: float, largest: float) -> str:
    width = round(90 * abs(value) / largest) if largest > 0 else 0
    return f'<span class="bar {"for" if value >= 0 else "against"}" style="width:{max(width, 1)}px"></span>'


# ---- a model ---------------------------------------------------------------------------------------------------------


def _model(explanation: ModelExplanation) -> str:
    parts = [
        f"<h2>{escape(explanation.estimator)}</h2>",
        f"<p>{len(explanation.labels)} labels, {explanation.n_features:,} features, {explanation.n_weights:,} weights, "
        f"{explanation.n_nonzero:,} non-zero; posterior: {escape(explanation.posterior)}</p>",
    ]
    if explanation.transitions:
        parts += ["<h3>Pairs of labels</h3>", "<p>Rows: left label. Blue: positive weight, red: negative weight.</p>"]
        parts.append(_heat_map(explanation.labels, explanation.transitions))
    parts.append(f"<h3>Features</h3><p>The largest weights of each label{_counts_note(explanation)}.</p>")
    largest = max((abs(weight.weight) for weights in explanation.top.values() for weight in weights), default=0.0)
    parts.append('<div class="grid">')
    for label, weights in explanation.top.items():
        rows = []
        for feature, weight, spread, relevance, count in weights:
            title = "" if spread is None else f' title="spread {spread:.3f}, relevance {relevance:.2f}"'
            more = "" if spread is None else f'<td class="n">&plusmn;{spread:.2f}</td>'
            rows.append(
                f'<tr{title}><td class="n">{weight:+.2f}</td>{more}<td class="bars">{_bar(weight, largest)}</td>'
                f"<td>{escape(feature)}</td>{_count(count)}</tr>"
            )
        parts.append(f'<div class="wide"><h3>{escape(label)}</h3><table>{"".join(rows)}</table></div>')
    parts.append("</div>")
    return "\n".join(parts)


def _heat_map(labels: Sequence[str], values: Sequence[Sequence[float]]) -> str:
    shown = labels[:MAX_LABELS]
    largest = max((abs(v) for row in values for v in row), default=0.0) or 1.0
    head = "".join(f'<th class="down">{escape(label)}</th>' for label in shown)
    rows = []
    for label, row in zip(shown, values):
        cells = "".join(
            f'<td style="background:rgba({"47,111,181" if v >= 0 else "194,84,60"},{0.85 * abs(v) / largest:.2f})" '
            f'title="{escape(label)} then {escape(right)}: {v:+.3f}">{v:.1f}</td>'
            for right, v in zip(shown, row)
        )
        rows.append(f"<tr><th>{escape(label)}</th>{cells}</tr>")
    more = f"<p>The first {MAX_LABELS} of {len(labels)} labels.</p>" if len(labels) > MAX_LABELS else ""
    return f'<div class="wide"><table class="heat"><tr><th></th>{head}</tr>{"".join(rows)}</table></div>{more}'


# ---- a sentence ------------------------------------------------------------------------------------------------------


def _sentence(explanation: SentenceExplanation) -> str:
    tokens = "".join(
        f'<div class="token{"" if token.label == "O" else " in"}"><b>{escape(token.token)}</b>'
        f"<span>{escape(token.label)}<br>{token.probability:.2f}{_truth(token)}</span></div>"
        for token in explanation.tokens
    )
    return "\n".join(
        [
            "<h2>Why these labels</h2>",
            f"<p>Probability of all labels together: {explanation.probability:.3f}. Each label is compared with its "
            f"runner-up. Blue: contribution to the label, red: to the runner-up.</p>",
            f'<div class="sentence">{tokens}</div>',
            *(_token(token) for token in explanation.tokens),
        ]
    )


def _truth(token: TokenExplanation) -> str:
    is_wrong = token.truth is not None and token.truth != token.label
    return f'<br><span class="wrong">{escape(str(token.truth))}</span>' if is_wrong else ""


def _token(token: TokenExplanation) -> str:
    against = ""
    if token.runner_up is not None:
        against = f"not {escape(token.runner_up)} ({token.runner_up_probability:.2f}), lead {token.lead:+.2f}"
    if token.truth is not None:
        verdict = "wrong" if token.truth != token.label else "right"
        against += f', true label <span class="{verdict}">{escape(token.truth)}</span>'
    largest = max((abs(reason.contribution) for reason in token.reasons), default=0.0)
    rows = "".join(
        f'<tr><td class="n">{reason.contribution:+.2f}</td><td class="bars">{_bar(reason.contribution, largest)}</td>'
        f"<td>{escape(reason.name)}</td>{_count(reason.n_tokens)}</tr>"
        for reason in token.reasons
    )
    opened = " open" if token.label != "O" or token.probability < 0.8 else ""
    return (
        f"<details{opened}><summary><b>{escape(token.token)}</b> {escape(token.label)} ({token.probability:.2f}) "
        f'<i>{against}</i></summary><div class="wide"><table>{rows}</table></div></details>'
    )
