"""Write docs/reproduction from the results of full runs: the table of claims, with details behind folds."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

from maxendnet import experiments
from maxendnet.experiments.engine.claim_table import (
    Line,
    correction,
    further_lines,
    number_text,
    paper_lines,
    verdict_text,
    write_forests,
)
from maxendnet.experiments.engine.report import duration, settings_text, state, summaries
from maxendnet.experiments.engine.reproduce import write_text

EARLIER = "verdicts_0.1.0.tsv"
"""Verdicts of an earlier version, in the folder of results; shown beside those of this version."""
INTRODUCTION = (
    "Zhu and Xing, *Maximum Entropy Discrimination Markov Networks*, JMLR 10 (2009). The figures of the copy we work "
    "from are lost, so each claim of the text is tested by an experiment. A claim that a system is better is *better*, "
    "*not better* or *undecided*; a claim of equality is *comparable* within half a percentage point, or *better*, "
    "*worse* or *undecided*; a bound holds, and is *vacuous* or *informative*. The number is the comparison that "
    "agrees least with the claim, with its 95 % interval; positive differences agree with the claim. A picture shows "
    "all comparisons and, in grey, zero and the margin of equality. [Errata of the paper](errata.md)."
)


def publish(out: Path, to: Path) -> list[str]:
    """Write ``to/README.md`` and figures; return the names of the experiments without a full run.

    Quick runs are ignored. An unfinished full run is shown with its number of cells.
    """
    runs = {name: s for name, s in summaries(out).items() if s["scale"] == "full"}
    to.mkdir(parents=True, exist_ok=True)
    for name in runs:
        picture = out / name / f"{name}.png"
        if picture.exists():
            shutil.copyfile(picture, to / f"{name}.png")
    write_forests([*paper_lines(runs), *further_lines(runs)], to / "forests", write_text)
    write_text(to / "README.md", readme(runs, to))
    return [name for name in experiments.NAMES if name not in runs]


def earlier_verdicts(to: Path) -> dict[tuple[str, str], str]:
    """Read the verdicts of an earlier version, by experiment and key."""
    path = to / "results" / EARLIER
    if not path.exists():
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        return {(row["experiment"], row["key"]): row["verdict"] for row in csv.DictReader(file, delimiter="\t")}


def readme(runs: dict[str, dict[str, Any]], to: Path) -> str:
    """Return the page in Markdown."""
    earlier = earlier_verdicts(to)
    lines = ["# The paper's experiments, rerun", "", INTRODUCTION, ""]
    lines += table_lines("claim of the paper", paper_lines(runs), earlier)
    further = further_lines(runs)
    if further:
        lines += ["", *table_lines("beyond the paper", further, earlier)]
    lines += [
        "",
        correction(runs.values()),
        "",
        "## Details",
        "",
        "Raw results are in [results](results): one table per experiment and one row per cell, with the version of the "
        "library and a hash of the experiment's code. This page is written from them, without a run, by `maxendnet "
        "reproduce all --finished --results docs/reproduction/results --publish docs/reproduction`.",
    ]
    for name in experiments.NAMES:
        if name in runs:
            lines += details(name, runs[name], to)
        else:
            title = experiments.get(name).title
            lines += ["", f'<a id="{name}"></a>', f"**{name}**: {title} Not run at full size yet."]
    return "\n".join(lines) + "\n"


def table_lines(title: str, lines: list[Line], earlier: dict[tuple[str, str], str]) -> list[str]:
    """Return a table of claims in Markdown."""
    rows = [f"| {title} | verdict | number with interval | |", "|---|---|---|---|"]
    last = ""
    for line in lines:
        claim = f"{line.claim if line.claim != last else ''} {f'· {line.label}' if line.label else ''}".strip()
        last = line.claim
        link = f"[{claim}](#{line.experiment})" if line.card is not None else claim
        if line.card is None:
            before = earlier.get((line.experiment, line.key))
            rows.append(f"| {link} | not run{f'; 0.1.0: {before}' if before else ''} | | |")
        else:
            picture = f"![](forests/{line.name}.svg)" if line.card["estimates"] else ""
            number = number_text(line.card).replace("|", "\\|")
            rows.append(f"| {link} | {verdict_text(line.card)} | {number} | {picture} |")
    return rows


def details(name: str, run: dict[str, Any], to: Path) -> list[str]:
    """Return the folded section of an experiment."""
    earlier = earlier_verdicts(to)
    lines = ["", f'<a id="{name}"></a>', f"<details><summary><b>{name}</b>: {run['title']}</summary>", "",
             f"{run['paper'][0].upper() + run['paper'][1:]}.", ""]  # fmt: skip
    if state(run):
        lines += [f"> {state(run)}", ""]
    if (to / f"{name}.png").exists():
        lines += [f"![{run['title']}]({name}.png)", ""]
    for card in run["cards"]:
        lines.append(f"- **{verdict_text(card)}**: {card['claim']} {card['test']}")
        lines += [f"  - {line}" for line in card["numbers"]]
        before = earlier.get((name, card["key"]))
        lines += [f"  - Version 0.1.0: {before}."] * bool(before)
    lines += [
        "",
        f"{run['method']} {settings_text(run)} Raw results: [results/{name}.tsv](results/{name}.tsv). `maxendnet "
        f"reproduce {name}` ({run['n_done']} of {run['n_cells']} cells, {duration(run['cell_seconds'])} on one "
        "processor).",
        "",
        "</details>",
    ]
    return lines
