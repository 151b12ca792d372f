"""Write docs/reproduction from a results folder: cards and figures of full runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from maxendnet import experiments
from maxendnet.experiments.engine.report import duration, state, summaries
from maxendnet.experiments.engine.reproduce import write_text

# claims of Section 7 of the paper, and the cards that test them
STATEMENTS: list[tuple[str, list[tuple[str, str]]]] = [
    ("LapMEDN is at least as good as M3N on sparse synthetic data",
     [("iid", "not_below_m3n"), ("correlated", "not_below_m3n")]),
    ("LapMEDN outperforms M3N there", [("iid", "beats_m3n"), ("correlated", "beats_m3n")]),
    ("LapMEDN keeps up with L1-CRF and L1-M3N there", [("iid", "like_l1"), ("correlated", "like_l1")]),
    ("L1-M3N is best with very few relevant features", [("iid", "l1_best_few")]),
    ("LapMEDN is better than L1-M3N with more of them", [("iid", "lap_best_many")]),
    ("Regularised CRFs beat the unregularised one", [("iid", "regularised"), ("correlated", "regularised")]),
    ("M3N and L2-CRF perform similarly", [("iid", "m3n_like_l2crf"), ("correlated", "m3n_like_l2crf"),
                                  ("ocr", "m3n_like_l2crf_one"), ("ocr", "m3n_like_l2crf_nine")]),
    ("LapMEDN is best on OCR", [("ocr", "lap_best_one"), ("ocr", "lap_best_nine"), ("ocr_full", "lap_best_one"),
                                ("ocr_full", "lap_best_nine")]),
    ("M3N beats CRF and L1-CRF on OCR", [("ocr", "m3n_beats_one"), ("ocr", "m3n_beats_nine")]),
    ("L1-M3N beats L1-CRF on OCR", [("ocr", "l1m3n_beats_l1crf_one"), ("ocr", "l1m3n_beats_l1crf_nine")]),
    ("CRF and L1-CRF overfit, L2-CRF does not", [("overfitting", "overfit")]),
    ("L1-CRF is sensitive to its constant", [("sensitivity", "l1crf_sensitive_one"),
                                             ("sensitivity", "l1crf_sensitive_nine")]),
    ("LapMEDN and L1-M3N are stable", [("sensitivity", "lap_stable_one"), ("sensitivity", "lap_stable_nine")]),
    ("Weights of irrelevant features shrink", [("weights", "irrelevant_shrink")]),
    ("Posterior variances show the groups of features", [("variances", "groups")]),
    ("Variances of irrelevant features vanish", [("variances", "vanish")]),
    ("Regularised models beat the unregularised CRF on web pages", [("web", "regularised")]),
    ("Max-margin models beat those of the likelihood there", [("web", "margin_beats_likelihood")]),
    ("LapMEDN keeps up with L1-M3N there", [("web", "lap_like_l1m3n")]),
    ("LapMEDN beats all others there when pages are few", [("web", "lap_best_few")]),
    ("L1-M3N beats L1-CRF there", [("web", "l1m3n_beats_l1crf")]),
]  # fmt: skip
SYMBOL = {"holds": "✅ holds", "does not hold": "❌ does not hold", "not decidable": "❔ not decidable"}


def publish(out: Path, to: Path) -> list[str]:
    """Write ``to/README.md`` and copy figures; return the names of the experiments without a full run.

    Quick runs are ignored. An unfinished full run is shown with its number of cells.
    """
    runs = {name: s for name, s in summaries(out).items() if s["scale"] == "full"}
    to.mkdir(parents=True, exist_ok=True)
    for name in runs:
        picture = out / name / f"{name}.png"
        if picture.exists():
            shutil.copyfile(picture, to / f"{name}.png")
    write_text(to / "README.md", readme(runs, to))
    return [name for name in experiments.NAMES if name not in runs]


def readme(runs: dict[str, dict[str, Any]], to: Path) -> str:
    """Return the page in Markdown."""
    cards = {(name, card["key"]): card for name, s in runs.items() for card in s["cards"]}
    lines = [
        "# The paper's experiments, rerun",
        "",
        "Zhu and Xing, *Maximum Entropy Discrimination Markov Networks*, JMLR 10 (2009). The figures of the copy we "
        "work "
        "from are lost; every experiment is rerun by one command, and every statement has a verdict: *holds* or *does "
        "not hold* where the 95 % interval of a paired test says so, *not decidable* where it does not. This page is "
        "written by `maxendnet reproduce all --finished --out DIR --publish docs/reproduction` from the results in "
        "`DIR`; nothing on it is typed by hand.",
        "",
        "## The statements of Section 7",
        "",
        "| statement | verdict | numbers |",
        "|---|---|---|",
    ]
    for sentence, keys in STATEMENTS:
        there = [(name, cards[name, key]) for name, key in keys if (name, key) in cards]
        if not there:
            lines.append(f"| {sentence} | not run yet | |")
        for name, card in there:
            lines.append(f"| {sentence} ([{name}](#{name})) | {SYMBOL[card['verdict']]} | {card['test']} |")
    for name in experiments.NAMES:
        if name not in runs:
            continue
        s = runs[name]
        lines += ["", f"## {name}", "", f"**{s['title']}** {s['paper'][0].upper() + s['paper'][1:]}.", ""]
        if state(s):
            lines += [f"> {state(s)}", ""]
        if (to / f"{name}.png").exists():
            lines += [f"![{s['title']}]({name}.png)", ""]
        for card in s["cards"]:
            lines.append(f"- {SYMBOL[card['verdict']]}: {card['claim']} {card['test']}")
            lines += [f"  - {line}" for line in card["numbers"]]
        versions = "; ".join(f"{n} cells by maxendnet {code}" for code, n in s["code"].items())
        lines += [
            "",
            f"<details><summary>Settings: {s['n_done']} of {s['n_cells']} cells, {duration(s['cell_seconds'])} on one "
            f"processor, {s['date']}</summary>",
            "",
            f"{s['method']} Seed {s['seed']}; {versions}. Raw results: "
            f"[results/{name}.tsv](results/{name}.tsv). `maxendnet reproduce {name}`",
            "",
            "</details>",
        ]
    missing = [name for name in experiments.NAMES if name not in runs]
    if missing:
        lines += ["", f"Not run at full size yet: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"
