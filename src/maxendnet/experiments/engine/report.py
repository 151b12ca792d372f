"""Write a self-contained HTML report with figures, cards, run times and settings."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from maxendnet import experiments

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #ffffff; --soft: #f3f5f8; --line: #d5dae2; --dim: #5a6675;
  --good: #00664a; --bad: #a33d00; --open: #555e69; --link: #0060a0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --paper: #14181e; --soft: #1e242c; --line: #39424e; --dim: #a3adba;
    --good: #4fc79d; --bad: #ff9a5c; --open: #b4bcc7; --link: #7cc0f4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .2rem; line-height: 1.3; }
a { color: var(--link); } .dim { color: var(--dim); font-size: .9rem; }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); border-radius: .5rem;
  overflow-x: auto; }
figure img { display: block; width: 100%; min-width: 36rem; height: auto; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: .8rem; }
.card { background: var(--soft); border: 1px solid var(--line); border-left: .35rem solid var(--open);
  border-radius: .5rem; padding: .7rem .9rem; min-width: 0; }
.card.good { border-left-color: var(--good); } .card.bad { border-left-color: var(--bad); }
.card p { margin: .3rem 0; } .card ul { margin: .3rem 0; padding-left: 1.1rem; font-size: .9rem; }
.verdict { font-weight: 700; color: var(--open); } .good .verdict, td.good { color: var(--good); }
.bad .verdict, td.bad { color: var(--bad); }
.warn { border: 1px solid var(--bad); color: var(--bad); border-radius: .5rem; padding: .4rem .8rem; }
details { margin: .8rem 0; font-size: .9rem; } summary { cursor: pointer; color: var(--link); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; } td, th { text-align: left; vertical-align: top;
  padding: .35rem .5rem; border-bottom: 1px solid var(--line); } .wide { overflow-x: auto; }
td.verdict { min-width: 7.5rem; } @media (min-width: 40rem) { td.verdict { white-space: nowrap; } }
"""

VERDICT_STYLE = {
    "holds": ("good", "✓ holds"),
    "does not hold": ("bad", "✗ does not hold"),
    "not decidable": ("", "? not decidable"),
}
NOT_RUN = {"web": "Extraction from web pages, the last figure of the paper."}


def summaries(out: Path) -> dict[str, dict[str, Any]]:
    """Read the summary of each experiment under ``out``, in the order of the paper."""
    runs = {}
    for name in experiments.NAMES:
        path = out / name / "cards.json"
        if path.exists():
            runs[name] = json.loads(path.read_text(encoding="utf-8"))
    return runs


def duration(seconds: float) -> str:
    """Format a number of seconds.

    >>> duration(42.3), duration(300), duration(9000)
    ('42 s', '5 min', '2.5 h')
    """
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def state(summary: dict[str, Any]) -> str:
    """Return a note on reduced or unfinished runs; empty for complete ones."""
    if summary["scale"] != "full":
        return f"A {summary['scale']} run: too small for conclusions."
    if summary["n_done"] < summary["n_cells"]:
        return f"Unfinished: {summary['n_done']} of {summary['n_cells']} cells; the verdicts may change."
    return ""


def shown(card: dict[str, Any], summary: dict[str, Any]) -> tuple[str, str]:
    """Return CSS class and text of a verdict; verdicts of reduced runs are neutral."""
    css_class, text = VERDICT_STYLE[card["verdict"]]
    return (css_class, text) if summary["scale"] == "full" else ("", f"{text} (in small)")


def page(out: Path) -> str:
    """Return the HTML page."""
    runs = summaries(out)
    body = ["<h1>The experiments of the paper, rerun</h1>",
            "<p>Zhu and Xing, <em>Maximum Entropy Discrimination Markov "
            "Networks</em>, JMLR 10 (2009), with the library maxendnet. Every "
            "claim has a card with a verdict: <em>holds</em> or <em>does not hold</em> by the 95 % interval of a "
            "paired test, <em>not decidable</em> if the interval includes zero.</p>"]  # fmt: skip
    if any(s["scale"] != "full" for s in runs.values()):
        body.append("<p class='warn'>This report contains quick runs, which are too small for conclusions.</p>")
    body.append("<div class='wide'><table><tr><th>claim</th><th>verdict</th></tr>")
    for name, summary in runs.items():
        for card in summary["cards"]:
            css_class, text = shown(card, summary)
            body.append(f"<tr><td>{html.escape(card['claim'])} <a href='#{name}' class='dim'>{name}</a></td>"
                        f"<td class='verdict {css_class}'>{text}</td></tr>")  # fmt: skip
    body.append("</table></div>")
    for name in experiments.NAMES:
        if name in runs:
            body += section(name, runs[name], out / name)
        else:
            reason = NOT_RUN.get(name, "Not run.")
            body.append(
                f"<h2 id='{name}'>{name}</h2><p class='dim'>{reason} <code>maxendnet reproduce {name}</code></p>"
            )
    total = duration(sum(s["cell_seconds"] for s in runs.values()))
    body.append(f"<p class='dim'>CPU time of all cells: {total}.</p>")
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width, "
        f"initial-scale=1'><title>maxendnet: the paper's experiments</title><style>{STYLE}</style><body>"
        + "\n".join(body) + "</body></html>\n"
    )  # fmt: skip


def section(name: str, summary: dict[str, Any], folder: Path) -> list[str]:
    """Return the HTML lines of one experiment."""
    lines = [f"<h2 id='{name}'>{html.escape(summary['title'])}</h2>",
             f"<p class='dim'><code>{name}</code>: {html.escape(summary['paper'])}</p>"]  # fmt: skip
    if state(summary):
        lines.append(f"<p class='warn'>{state(summary)}</p>")
    picture = folder / f"{name}.svg"
    if picture.exists():
        code = base64.b64encode(picture.read_bytes()).decode()
        lines.append(f"<figure><img alt='{html.escape(summary['title'], quote=True)}' "
                     f"src='data:image/svg+xml;base64,{code}'></figure>")  # fmt: skip
    lines.append("<div class='cards'>")
    for card in summary["cards"]:
        css_class, text = shown(card, summary)
        numbers = "".join(f"<li>{html.escape(line)}</li>" for line in card["numbers"])
        lines.append(f"<div class='card {css_class}'><p>{html.escape(card['claim'])}</p><p class='verdict'>{text}</p>"
                     f"<ul>{numbers}</ul><p class='dim'>{html.escape(card['test'])}</p></div>")  # fmt: skip
    lines.append("</div>")
    settings = "".join(
        f"<tr><td>{html.escape(key)}</td><td>{html.escape(', '.join(map(str, values)))}</td></tr>"
        for key, values in summary["settings"].items()
    )
    versions = "; ".join(f"{n} cells: {code}" for code, n in summary["code"].items())
    lines.append(
        f"<details><summary>Method: {summary['n_done']} cells, {duration(summary['cell_seconds'])} on one "
        f"processor, {summary['date']}</summary><p>{html.escape(summary['method'])}</p><div class='wide'><table>"
        f"<tr><th>setting</th><th>values</th></tr>{settings}<tr><td>seed</td><td>{summary['seed']}</td></tr>"
        f"<tr><td>computed by</td><td>{versions}</td></tr></table></div>"
        f"<p>Numbers: <code>results/{name}.tsv</code>; repeat: <code>maxendnet reproduce {name} --seed "
        f"{summary['seed']}{' --quick' * (summary['scale'] == 'quick')}</code></p></details>"
    )
    return lines
