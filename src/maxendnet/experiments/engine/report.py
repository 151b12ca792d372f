"""Write a self-contained HTML report with figures, cards, run times and settings."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from maxendnet import experiments
from maxendnet.experiments.engine.claim_table import (
    Line,
    correction,
    forest,
    further_lines,
    number_text,
    paper_lines,
    verdict_text,
)

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #ffffff; --soft: #f3f5f8; --line: #d5dae2; --dim: #5a6675;
  --good: #00664a; --bad: #a33d00; --open: #555e69; --link: #0060a0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --paper: #14181e; --soft: #1e242c; --line: #39424e; --dim: #a3adba;
    --good: #4fc79d; --bad: #ff9a5c; --open: #b4bcc7; --link: #7cc0f4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: .6rem 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.3rem; line-height: 1.2; margin: 0; } p, details { max-width: 62rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .2rem; line-height: 1.3; }
a { color: var(--link); } .dim { color: var(--dim); font-size: .9rem; }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); border-radius: .5rem;
  overflow-x: auto; }
figure img { display: block; width: 100%; min-width: 36rem; height: auto; }
.card { border-left: .3rem solid var(--open); margin: .8rem 0; padding: .1rem .8rem; }
.card.good { border-left-color: var(--good); } .card.bad { border-left-color: var(--bad); }
.card p { margin: .2rem 0; } .card ul { margin: .2rem 0; padding-left: 1.1rem; font-size: .9rem; }
.verdict { font-weight: 600; color: var(--open); } .good .verdict, td.good { color: var(--good); }
.bad .verdict, td.bad { color: var(--bad); }
.warn { border: 1px solid var(--bad); color: var(--bad); border-radius: .5rem; padding: .4rem .8rem; }
details { margin: .5rem 0; } summary { cursor: pointer; } summary b { color: var(--link); }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: middle;
  border-bottom: 1px solid var(--line); padding: .3rem .5rem; } .wide { overflow-x: auto; }
.tables { columns: 2 34rem; column-gap: 1.5rem; } .claims { font-size: .74rem; line-height: 1.2; }
.claims td, .claims th { padding: .06rem .35rem .06rem 0; }
.claims svg { display: block; height: 1.15rem; width: 5rem; } .number { white-space: nowrap; }
.claims a { color: inherit; text-decoration: none; } .claims .dim { font-size: inherit; } .claims tr { height: 1.4rem; }
.claims .first td { border-top: 1px solid var(--line); } .claims td { border-bottom: 0; }
td.verdict { white-space: nowrap; }  .number { font-variant-numeric: tabular-nums; }
.dim { margin: .3rem 0; }
@media (max-width: 40rem) { .claims { font-size: .85rem; } .claims, .claims tbody { display: block; }
  .claims tr:first-child { display: none; }
  .claims tr { height: auto; display: grid; grid-template-columns: 1fr auto;
    padding: .35rem 0; border-top: 1px solid var(--line); }
  .claims td { border: 0; } .claims .first td { border: 0; } .claims svg { width: 6rem; } }
"""


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
    if summary["exact"]:
        return ""
    if summary["scale"] != "full":
        return f"A {summary['scale']} run: too small for conclusions."
    if summary["n_done"] < summary["n_cells"]:
        return f"Unfinished: {summary['n_done']} of {summary['n_cells']} cells; the verdicts may change."
    return ""


CLASSES = {True: "good", False: "bad", None: ""}


def page(out: Path) -> str:
    """Return the HTML page: tables of claims, then a folded section per experiment."""
    runs = summaries(out)
    body = ["<h1>The experiments of the paper, rerun</h1>",
            "<p class='dim'>Zhu and Xing, <em>Maximum Entropy Discrimination Markov Networks</em>, JMLR 10 (2009). "
            "Number: the comparison that agrees least with the claim; positive differences agree with it. Picture: all "
            "comparisons, zero, and the margin of equality. Details are below.</p>"]  # fmt: skip
    small = [name for name, run in runs.items() if run["scale"] != "full" and not run["exact"]]
    if small:
        body.append(f"<p class='warn'>Quick runs, too small for conclusions: {', '.join(small)}.</p>")
    body += claim_table("claim of the paper", paper_lines(runs))
    further = further_lines(runs)
    if further:
        body += claim_table("beyond the paper", further)
    body.append(f"<p class='dim'>{html.escape(correction(runs.values()))}</p><h2>Details</h2>")
    for name in experiments.NAMES:
        if name in runs:
            body += section(name, runs[name], out / name)
        else:
            body.append(f"<p id='{name}' class='dim'>Not run: <code>maxendnet reproduce {name}</code></p>")
    total = duration(sum(s["cell_seconds"] for s in runs.values()))
    body.append(f"<p class='dim'>CPU time of all cells: {total}.</p>")
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width, "
        f"initial-scale=1'><title>maxendnet: the paper's experiments</title><style>{STYLE}</style><body>"
        + "\n".join(body) + "</body></html>\n"
    )  # fmt: skip


def claim_table(title: str, lines: list[Line]) -> list[str]:
    """Return the HTML lines of a table of claims."""
    head = f"<tr><th>{title}</th><th>verdict</th><th>points [95 %]</th><th></th></tr>"
    rows = [f"<div class='tables'><table class='claims'>{head}"]
    last = ""
    for line in lines:
        first = line.claim != last
        last = line.claim
        label = f" <span class='dim'>{html.escape(line.label)}</span>" if line.label else ""
        claim = (html.escape(line.claim) if first else "") + label
        card = line.card
        cells = "<td class='verdict'>not run</td><td></td><td></td>" if card is None else (
            f"<td class='verdict {CLASSES[card['verdict']['agrees']]}'>{html.escape(verdict_text(card))}</td>"
            f"<td class='number'>{html.escape(number_text(card, label=False))}</td><td>{forest(card)}</td>"
        )  # fmt: skip
        rows.append(f"<tr{' class=first' * first}><td><a href='#{line.experiment}'>{claim}</a></td>{cells}</tr>")
    return [*rows, "</table></div>"]


def section(name: str, run: dict[str, Any], folder: Path) -> list[str]:
    """Return the HTML lines of one experiment, behind a fold."""
    # browsers open a fold when a link leads to an element inside
    lines = [f"<details><summary><b>{name}</b>: {html.escape(run['title'])}</summary>",
             f"<p id='{name}' class='dim'>{html.escape(run['paper'])}</p>"]  # fmt: skip
    if state(run):
        lines.append(f"<p class='warn'>{state(run)}</p>")
    picture = folder / f"{name}.svg"
    if picture.exists():
        code = base64.b64encode(picture.read_bytes()).decode()
        lines.append(f"<figure><img alt='{html.escape(run['title'], quote=True)}' "
                     f"src='data:image/svg+xml;base64,{code}'></figure>")  # fmt: skip
    for card in run["cards"]:
        numbers = "".join(f"<li>{html.escape(line)}</li>" for line in card["numbers"])
        lines.append(f"<div class='card {CLASSES[card['verdict']['agrees']]}'><p><span class='verdict'>"
                     f"{html.escape(verdict_text(card))}</span>: {html.escape(card['claim'])}</p>"
                     f"<ul>{numbers}</ul><p class='dim'>{html.escape(card['test'])}</p></div>")  # fmt: skip
    lines.append(
        f"<p class='dim'>{html.escape(run['method'])} {html.escape(settings_text(run))} {run['n_done']} of "
        f"{run['n_cells']} cells, {duration(run['cell_seconds'])} on one processor. Raw results: "
        f"<code>results/{name}.tsv</code>; repeat: <code>maxendnet reproduce {name} --seed {run['seed']}"
        f"{' --quick' * (run['scale'] == 'quick')}</code></p></details>"
    )
    return lines


def settings_text(run: dict[str, Any]) -> str:
    """Describe the seed, the code and the cells without results."""
    code = "; ".join(f"{n} cells by maxendnet {version}" for version, n in run["code"].items())
    older = f" {run['n_older']} of them are results of older code." if run["n_older"] else ""
    return f"Seed {run['seed']}; {code}.{older}" + (f" {'; '.join(run['missing'])}." if run["missing"] else "")
