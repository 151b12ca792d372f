import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN
from maxendnet.web.features.groups import NEW_SITES, leaf_features
from maxendnet.web.fields.labels import labelled_leaves, labels_on_page
from maxendnet.web.fields.leaf_labels import INNER, NONE, fields_of, leaf_labels, miss_cost
from maxendnet.web.hierarchy.block_labels import block_labels, forbidden_pairs
from maxendnet.web.hierarchy.vision_tree import VisionTree, vision_tree
from maxendnet.web.model.dataset import MODELS, featurise, max_marginals, to_examples, vocabulary
from maxendnet.web.model.numbering import Numbering, Vocabulary
from maxendnet.web.model.systems import estimator, set_model
from maxendnet.web.pages.page import Page
from maxendnet.web.tool.toy import toy_pages
from maxendnet.web.views.view import make_views

STRUCTURES = {"choice": "choice", "independent": "independent", "chain": "chain", "hierarchical": "tree"}


@pytest.fixture(scope="module")
def toy():
    pages = toy_pages(n_sites=2, n_pages=2)
    views = make_views(pages.pages)
    labels = [leaf_labels(len(v), labelled_leaves(v, labels_on_page(v, x)[0])) for v, x in zip(views, pages.labels)]
    return views, labels


def data(toy, model):
    views, labels = toy
    numbering = Numbering()
    pages = [featurise(view, NEW_SITES, model, numbering) for view in views]
    words = vocabulary(pages, [view.page.site for view in views])
    return pages, words, to_examples(pages, words, model, labels)


@given(st.lists(st.sampled_from(["<div>", "</div>", "<p>name</p>", "<p>price</p>", "<p>x</p>"]), max_size=25))
@settings(max_examples=150)
def test_inner_labels_follow_from_the_leaves(pieces):
    page = Page.from_html("".join(pieces))
    tree = vision_tree(page)
    leaves = [s for s, leaf in zip(tree.sources, tree.leaf) if leaf]
    texts = [page.text(s[0]) for s in leaves]
    labels = [text if text != "x" else NONE for text in texts]
    of_blocks = block_labels(tree, labels)
    below = [set() for _ in range(len(tree))]
    for b in range(len(tree) - 1, -1, -1):
        if tree.leaf[b]:
            below[b] |= set(fields_of(of_blocks[b]))
        if tree.parents[b] >= 0:
            below[tree.parents[b]] |= below[b]
    on_page = set().union(*below) if below else set()
    assert [label for label, leaf in zip(of_blocks, tree.leaf) if leaf] == labels
    for b, label in enumerate(of_blocks):
        if tree.leaf[b]:
            continue
        inside = [of_blocks[c] for c in range(len(tree)) if tree.parents[c] == b]
        assert (label == INNER + NONE) == (not below[b])
        if label == INNER + "record":
            assert below[b] == on_page and not {INNER + "record", INNER + "region"} & set(inside)
        if label == INNER + "region":
            assert {INNER + "record", INNER + "region"} & set(inside)
        if label == INNER + "part":
            assert 1 < len(below[b]) < len(on_page)


@pytest.mark.parametrize("model", MODELS)
def test_features_by_number_are_features_by_name(toy, model):
    pages, words, _ = data(toy, model)
    numbers = pages[0].numbering.names()
    for view, page in zip(toy[0], pages):
        expected = [sorted(set(names)) for names in leaf_features(view, NEW_SITES)]
        rows = [page.indices[page.indptr[t] : page.indptr[t + 1]] for t in page.leaf]
        assert [sorted(numbers[k] for k in row) for row in rows] == expected
    half = Vocabulary.of(words.names[::2])
    matrix = to_examples(pages, half, model).X
    assert matrix.sum() == sum(np.isin([numbers[k] for k in page.indices], half.names).sum() for page in pages)
    assert half.names == words.names[::2]


def test_pages_with_another_numbering_give_the_same_examples(toy):
    _, words, expected = data(toy, "chain")
    numbering = Numbering()
    pages = [featurise(view, NEW_SITES, "chain", numbering) for view in reversed(toy[0])][::-1]
    assert sorted(vocabulary(pages, [view.page.site for view in toy[0]]).names) == sorted(words.names)
    examples = to_examples(pages, words, "chain", toy[1])
    assert (examples.X != expected.X).nnz == 0 and examples.feature_names == expected.feature_names


def test_identical_labelled_leaves_are_one_example(toy):
    views, labels = toy
    pages, words, once = data(toy, "independent")
    twice = to_examples(pages * 2, words, "independent", labels * 2)
    assert len(once) <= sum(map(len, views)) and once.sample_weight.sum() == sum(map(len, views))
    assert len(twice) == len(once) and (twice.sample_weight == 2 * once.sample_weight).all()
    paged = to_examples(pages, words, "chain", labels)
    fits = [L2CRF(structure="independent", tol=1e-6).fit(examples) for examples in (once, paged)]
    np.testing.assert_allclose(fits[0].objective_, fits[1].objective_, rtol=1e-5)


def test_missing_a_field_costs_more():
    cost = miss_cost(["block:none", "block:record", "none", "price"], 5.0)
    assert cost[3, 2] == cost[1, 0] == 5.0 and cost[2, 3] == cost[0, 1] == 1.0 and not cost.diagonal().any()


FIELD_LABELS = ["none", "none", "a", "b", "c", "a+b"]
EVERY_LABEL = ["none", "a", "b", "c", "a+b", *(INNER + x for x in
               ("none", "has_a", "has_b", "has_c", "part", "record", "region"))]  # fmt: skip


def pairs_of(tree, labels):
    return [(labels[p], labels[t]) for t, p in enumerate(tree.parents) if p >= 0]


def random_pairs(rng, n_blocks, n_labels):
    """Return the pairs of a random tree whose leaves have the first ``n_labels`` labels."""
    parents = [-1]
    for t in range(1, n_blocks):  # below the last block or one of those above it: document order
        above = t - 1
        while parents[above] >= 0 and rng.random() < 0.5:
            above = parents[above]
        parents.append(above)
    leaf = ~np.isin(np.arange(n_blocks), parents)
    tree = VisionTree([()] * n_blocks, np.array(parents), leaf, np.zeros(n_blocks, dtype=bool))
    return pairs_of(tree, block_labels(tree, rng.choice(FIELD_LABELS[:n_labels], size=leaf.sum()).tolist()))


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=500)
def test_no_page_has_a_forbidden_pair(n_blocks, n_labels, seed):
    pairs = random_pairs(np.random.default_rng(seed), n_blocks, n_labels)
    assert not set(pairs) & set(forbidden_pairs(EVERY_LABEL))


def test_every_allowed_pair_occurs():
    """Every pair that is not forbidden occurs in some labelling."""
    rng, pairs = np.random.default_rng(0), set()
    for _ in range(3000):
        pairs.update(random_pairs(rng, int(rng.integers(2, 20)), int(rng.integers(2, 7))))
    inner = [label for label in EVERY_LABEL if label.startswith(INNER)]
    possible = {(parent, child) for parent in inner for child in EVERY_LABEL} - set(forbidden_pairs(EVERY_LABEL))
    assert possible - pairs == set()


def test_nothing_is_forbidden_if_a_page_could_have_no_labelling():
    assert forbidden_pairs(["a", "b", "block:record", "none"]) == []
    assert forbidden_pairs(["a", "b", "block:record", "block:none"]) == []
    assert forbidden_pairs(["a", "none"]) == []


def test_vocabulary_counts_sites(toy):
    pages, words, _ = data(toy, "chain")
    sites = [v.page.site for v in toy[0]]
    by_site = [{name for page, s in zip(pages, sites) if s == site for name in _names(page)} for site in set(sites)]
    assert set(vocabulary(pages, sites, min_sites=2).names) == by_site[0] & by_site[1]
    assert set(words.names) == by_site[0] | by_site[1]
    assert vocabulary(pages, ["one"] * 4, min_sites=2).names == words.names  # only one site


def _names(page):
    names = page.numbering.names()
    return [names[k] for k in page.indices]


def test_hierarchical_examples_have_typed_labels_and_edges(toy):
    pages, _, examples = data(toy, "hierarchical")
    assert examples.n_edge_types == 2 and examples.n_nodes == sum(len(page.tree) for page in pages)
    leaf = examples.node_types == 1
    assert not any(str(label).startswith(INNER) for label in examples.y[leaf])
    assert all(str(label).startswith(INNER) for label in examples.y[~leaf])
    model = L2CRF(structure="tree", tol=0.05).fit(examples)
    for labels, page in zip(model.predict(examples), pages):
        assert [label.startswith(INNER) for label in labels] == (~page.tree.leaf).tolist()


def test_choices_are_one_right_leaf_among_those_without_the_field():
    from maxendnet.web.model.dataset import examples_of

    leaves = sparse.csr_array(np.array([[1.0, 0], [0, 1], [1, 1], [0, 1], [1, 0]]))
    pages = [leaves, leaves[:2]]
    labels = [["price", "none", "name+price", "none", "none"], ["none", "none"]]
    examples = examples_of([], pages, "choice", labels)
    rows = [
        (x.toarray().tolist(), y.tolist(), weight)
        for x, y, weight in zip(
            [examples.X[a:b] for a, b in zip(examples.offsets[:-1], examples.offsets[1:])],
            np.split(np.asarray(examples.y), examples.offsets[1:-1]),
            examples.sample_weight,
        )
    ]
    a, b, both = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]
    assert rows == [
        ([a, b, both], ["none", "none", "name"], 1.0),  # identical leaves are one row
        ([b, a, a], ["none", "none", "price"], 0.5),  # two leaves have the price: weight 1/2 each
        ([b, a, both], ["none", "none", "price"], 0.5),
        ([a, b], ["none", "none"], 1.0),  # the second page has no field
        ([a, b], ["none", "none"], 1.0),
    ]
    assert list(examples.labels) == ["none", "name", "price"]
    assert examples.allowed.sum(axis=1).tolist() == [2] * examples.n_nodes


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("system", ["lapmedn", "m3n", "l1m3n", "crf", "l2crf", "l1crf"])
def test_decoding_never_breaks_the_constraints(toy, system):
    """Check training pages and random pages."""
    pages, words, examples = data(toy, "hierarchical")
    model = estimator(system, model="hierarchical")
    set_model(model, "hierarchical", examples.y.tolist(), 5.0, siblings=True, constraints=True)
    model.set_params(tol=0.1, max_passes=50).fit(examples)
    forbidden = set(forbidden_pairs(model.classes_.tolist()))
    assert len(forbidden) > 20 and model.siblings_.any()
    rng = np.random.default_rng(0)
    pieces = ["<div>", "</div>", "<p>$12.50</p>", "<h1>Red Cup</h1>", "<ul><li>x</li></ul>"]
    random_pages = [Page.from_html("".join(rng.choice(pieces, size=n))) for n in (1, 5, 60, 200)]
    views = [view for view in make_views(random_pages) if len(view)]
    pages = [*pages, *(featurise(view, NEW_SITES, "hierarchical", pages[0].numbering) for view in views)]
    for page, labels in zip(pages, model.predict(to_examples(pages, words, "hierarchical"))):
        assert not set(pairs_of(page.tree, labels)) & forbidden


@pytest.mark.parametrize("system", [L2CRF(lam=0.1), M3N(C=1.0, tol=0.02)])
def test_examples_of_leaves_and_of_pages_have_the_same_objective(toy, system):
    pages, _, flat = data(toy, "independent")
    _, _, paged = data(toy, "chain")
    system.set_params(structure="independent").fit(flat)
    objective = system.objective_
    values = max_marginals(system, pages, "independent")
    assert [len(v) for v in values] == [page.n_nodes for page in pages]
    system.fit(paged)
    assert abs(objective - system.objective_) <= 0.03 * system.objective_


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "system",
    [
        LapMEDN(C=1, lam=1, tol=0.1, max_passes=300),
        M3N(C=0.1, tol=0.1, max_passes=300),
        L1M3N(C=1, tol=0.2, max_passes=300),
        CRF(tol=0.05),
        L1CRF(lam=1.0, tol=0.2),
        L2CRF(lam=1.0, tol=0.05),
    ],
    ids=lambda system: type(system).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_six_systems_train_on_each_model(toy, system, model):
    _, _, examples = data(toy, model)
    system.set_params(structure=STRUCTURES[model])
    if "cost" in system.get_params():
        system.set_params(cost=miss_cost(sorted(set(examples.y.tolist())), 5.0))
    system.fit(examples)
    assert system.score(examples) > 0.95
