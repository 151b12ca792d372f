"""Examples of the documentation run and print what is shown."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

from maxendnet import Gaussian, Laplace, MaxEnDNet, SpikeSlab, solvers

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "```python" in path.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_examples(page):
    """Blocks with prompts are doctests, others are run; all of a page share their names."""
    names = {"__name__": __name__}  # dataclasses look up the module of their class
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    text = page.read_text()
    report = []
    for block in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        line = text[: block.start(1)].count("\n")
        if ">>>" not in block.group(1):
            exec(compile("\n" * line + block.group(1), str(page), "exec"), names)
            continue
        example = doctest.DocTestParser().get_doctest(block.group(1), names, page.name, str(page), line)
        runner.run(example, out=report.append, clear_globs=False)
        names = example.globs
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize("page", sorted((DOCS / "extend").glob("*.md")), ids=lambda page: page.name)
def test_all_code_of_the_extension_pages_is_executed(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
    assert page in PAGES and set(fences[::2]) == {"python"} and set(fences[1::2]) == {""}


def test_every_solver_has_a_row_in_the_user_guide():
    of_unknown_labels = {solvers.ConcaveConvex, solvers.SelfTraining}  # in unknown_labels.md
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", (DOCS / "user_guide.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"\w+", row)}
    assert not {kind.__name__ for kind in solvers.ALL if kind not in of_unknown_labels} - names


def test_the_solver_of_the_docs_agrees_with_the_built_in_one():
    names = {"__name__": __name__}
    page = (DOCS / "extend" / "solver.md").read_text()
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1), names)
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (4, 2, 5, 3)]
    y = [(x[:, 0] + rng.normal(size=len(x)) > 0).tolist() for x in X]
    for prior in (Gaussian(), Laplace(2.0), SpikeSlab()):
        ours = MaxEnDNet(prior, C=0.3, tol=1e-5, random_state=0).fit(X, y)
        docs = MaxEnDNet(prior, C=0.3, solver=names["BatchFrankWolfe"](), tol=1e-2).fit(X, y)
        assert ours.dual_ <= docs.objective_ * (1 + 1e-12) and docs.dual_ <= ours.objective_ * (1 + 1e-12)
        assert abs(docs.objective_ - ours.objective_) <= 1e-2 * docs.objective_
