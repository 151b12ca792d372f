"""``maxendnet web demo``: toy shops, a model from three pages of each, and a table of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from maxendnet.web.model.extractor import Extractor
from maxendnet.web.model.record import as_lines
from maxendnet.web.tool.evaluation import evaluate
from maxendnet.web.tool.toy import toy_pages

LABELLED = 3


def demo(out: str | Path, seed: int = 0, echo: Callable[[str], object] = print) -> float:
    """Make pages, train, extract, evaluate; all files stay in a folder.

    Returns
    -------
    float
        Average F1 on the pages that were not labelled.
    """
    out = Path(out)
    toy = toy_pages(n_sites=5, n_pages=8, random_state=seed)
    toy.write(out / "pages")
    first = [int(page.name.rsplit("/", 1)[1].split(".")[0]) < LABELLED for page in toy.pages]
    lines = [{"page": x.page, "site": x.site, "values": x.values} for x, use in zip(toy.labels, first) if use]
    (out / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    echo(f"Made {len(toy.pages)} pages of 5 shops in {out / 'pages'}, and labels of {len(lines)} of them.")
    extractor = Extractor().fit(toy.pages, [x if use else None for x, use in zip(toy.labels, first)])
    extractor.save(out / "shop.medn")
    rest = [page for page, use in zip(toy.pages, first) if not use]
    truth = [x for x, use in zip(toy.labels, first) if not use]
    records = extractor.extract(rest, min_confidence=0.2)  # as `maxendnet web extract` does
    text = as_lines(records)
    (out / "records.jsonl").write_text(text, encoding="utf-8")
    echo(f"\n{'page':<24}" + "".join(f"{name:<28}" for name in extractor.fields_))
    for record in records[:8]:
        cells = [f"{c.value[:20]} ({c.confidence:.2f})" if c else "-" for c in record.fields.values()]
        echo(f"{record.page:<24}" + "".join(f"{cell:<28}" for cell in cells))
    scores = evaluate(rest, truth, records, extractor.fields_, extractor.images_, extractor.data_)
    echo(f"\nAverage F1 {scores.average_f1:.3f} on {len(rest)} pages; all fields right on {scores.all_right:.0%}.")
    echo(f"All {len(records)} records are in {out / 'records.jsonl'}. Now try:")
    echo(f"  maxendnet web check {out / 'shop.medn'} {out / 'pages'}")
    return scores.average_f1
