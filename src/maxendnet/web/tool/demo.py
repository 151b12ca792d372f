"""``maxendnet web demo``: train on three pages of each shop, and extract records from the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from maxendnet.web.model.extractor import Extractor
from maxendnet.web.model.record import as_lines
from maxendnet.web.tool.evaluation import evaluate
from maxendnet.web.tool.toy import toy_pages

N_LABELLED = 3  # pages of each shop


def demo(out: str | Path, seed: int = 0, echo: Callable[[str], object] = print) -> float:
    """Generate pages, train a model, extract records and evaluate them; write all files to a folder.

    Parameters
    ----------
    out : str or path
        Output folder.
    seed : int
        Seed of the page generator.
    echo : callable
        Prints a line.

    Returns
    -------
    float
        Average F1 on the unlabelled pages.
    """
    out = Path(out)
    toy = toy_pages(n_sites=5, n_pages=8, random_state=seed)
    toy.write(out / "pages")
    is_labelled = [int(page.name.rsplit("/", 1)[1].split(".")[0]) < N_LABELLED for page in toy.pages]
    lines = [{"page": x.page, "site": x.site, "values": x.values} for x, use in zip(toy.labels, is_labelled) if use]
    (out / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    echo(f"Wrote {len(toy.pages)} pages of 5 shops to {out / 'pages'}, and labels for {len(lines)} of them.")
    extractor = Extractor().fit(toy.pages, [x if use else None for x, use in zip(toy.labels, is_labelled)])
    extractor.save(out / "shop.medn")
    rest = [page for page, use in zip(toy.pages, is_labelled) if not use]
    truth = [x for x, use in zip(toy.labels, is_labelled) if not use]
    records = extractor.extract(rest, min_confidence=0.2)  # the default of `maxendnet web extract`
    (out / "records.jsonl").write_text(as_lines(records), encoding="utf-8")
    echo(f"\n{'page':<24}" + "".join(f"{name:<28}" for name in extractor.fields_))
    for record in records[:8]:
        cells = [f"{c.value[:20]} ({c.confidence:.2f})" if c else "-" for c in record.fields.values()]
        echo(f"{record.page:<24}" + "".join(f"{cell:<28}" for cell in cells))
    scores = evaluate(rest, truth, records, extractor.fields_, extractor.images_, extractor.data_)
    echo(f"\nAverage F1 {scores.average_f1:.3f} on {len(rest)} pages; all fields correct on {scores.all_right:.0%}.")
    echo(f"All {len(records)} records are in {out / 'records.jsonl'}. Next, try:")
    echo(f"  maxendnet web check {out / 'shop.medn'} {out / 'pages'}")
    return scores.average_f1
