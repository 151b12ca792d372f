"""Read a model file and label chains, trees and rules with NumPy alone.

This file does not import maxendnet: copy it to audit a model, to label examples where nothing can be compiled, or as a
pattern for another language. docs/model_format.md describes the file. Decoding is exact and slow: plain Python, with a
dictionary entry for every state of the recursion.

Usage: python decoder.py MODEL EXAMPLES.jsonl

Each line of the input is an example: a list of nodes, each a list of numbers or a feature dict, or for trees
``{"nodes": [...], "edges": [[parent, child], ...]}``. Each line of the output is ``[score, [label, ...]]``.

>>> Rule("Regex", {"pattern": "a* b?"}, ["a", "b"]).accepts([0, 0, 1])
True
"""

import hashlib
import itertools
import json
import math
import re
import sys
import zlib

import numpy as np

MAGIC = bytes.fromhex("894D45444E0D0A1A")
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}


class Unsupported(ValueError):
    """The model or the example needs something that this decoder does not compute."""


# ---- the file --------------------------------------------------------------------------------------------------------


def read(path):
    """Return the header of a model file, and a function that returns a tensor by name."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:8] != MAGIC:
        raise ValueError(f"{path} is not a model file of maxendnet.")
    version = int.from_bytes(content[8:12], "little")
    if version not in (2, 3):
        raise Unsupported(f"{path} has format {version}; this decoder reads 2 and 3. Format 4 is a pipeline.")
    if hashlib.sha256(content[8:12] + content[44:]).digest() != content[12:44]:
        raise ValueError(f"{path} is damaged: its checksum does not match its content.")
    body = zlib.decompress(content[44:]) if version >= 3 else content[44:]
    begin = 8 + int.from_bytes(body[:8], "little")
    table = json.loads(body[8:begin])

    def tensor(name):
        first, last = table[name]["data_offsets"]
        array = np.frombuffer(body[begin + first : begin + last], DTYPES[table[name]["dtype"]])
        return array.reshape(table[name]["shape"])

    return json.loads(table["__metadata__"]["maxendnet"]), tensor


def value_of(plain, tensor):
    """Return the Python value of a JSON value of the header. Pieces become pairs (name, options)."""
    if isinstance(plain, list):
        return [value_of(item, tensor) for item in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == "float":
        return float(content)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "scalar":
        return value_of(content[1], tensor)
    if kind == "tuple":
        return tuple(value_of(content, tensor))
    if kind == "dict":
        return {value_of(key, tensor): value_of(item, tensor) for key, item in content}
    if kind == "array":
        return tensor(content).tolist()
    if kind in ("strings", "objects"):
        return value_of(content, tensor)
    if kind == "piece":
        return content[0], {key: value_of(item, tensor) for key, item in content[1].items()}
    raise Unsupported(f"the header has a value of type {kind!r}.")


# ---- the model -------------------------------------------------------------------------------------------------------


class Model:
    """Weights and rules of a model file."""

    def __init__(self, path):
        header, tensor = read(path)
        self.kind, options = value_of(header["structure"], tensor)
        self.labels = value_of(header["classes"], tensor)
        self.n_features = header["n_features_in"]
        self.names = None
        if header["feature_names"]:
            self.names = {name: k for k, name in enumerate(json.loads(tensor("feature_names").tobytes()))}
        layout, L = header["layout"], len(self.labels)
        for what, used in {
            f"the structure {self.kind}": self.kind not in ("Chain", "Tree", "Independent"),
            "hidden states": options.get("hidden", 1) != 1,
            "one label per example": options.get("whole", False),
            "edge features": layout.get("n_edge_features", 0),
            "label features": layout.get("n_label_features", 0),
            "node types": layout.get("type_allowed") is not None,
            "several edge types": layout.get("n_edge_types", 0) > 1,
        }.items():
            if used:
                raise Unsupported(f"{path} has {what}; this decoder does not compute that.")
        self.bias, self.ends = options.get("bias", False), options.get("ends", False)
        self.order = options.get("order", 1)
        weights = iter(np.array(tensor(header["weights"]["array"])))
        take = lambda n: np.fromiter(itertools.islice(weights, n), float, n)  # noqa: E731
        n_columns = layout["n_features"]
        if layout.get("seen"):  # weights only for pairs of a feature and a label that occurred in training
            offsets, members = (tensor(layout["seen"][name]["array"]) for name in ("offsets", "labels"))
            self.node = np.zeros((n_columns, L))
            self.node[np.repeat(np.arange(n_columns), np.diff(offsets)), members] = take(len(members))
        else:
            self.node = take(n_columns * L).reshape(n_columns, L)
        self.transitions = take(layout.get("n_edge_types", 0) * L * L).reshape(-1, L, L)
        self.siblings = take(L**3).reshape(L, L, L) if layout.get("siblings") else None
        self.ngrams = self._ngrams(layout, tensor, take(layout.get("n_ngrams", 0)).tolist())
        number = {label: k for k, label in enumerate(self.labels)}
        self.forbidden = {(number[a], number[b]) for a, b in options.get("forbidden") or ()}
        rules = options.get("rules") or []
        rules = list(rules) if isinstance(rules, list) else [rules]
        if options.get("durations") is not None:
            rules.append(("Durations", {"limits": options["durations"]}))
        self.rules = [Rule(name, settings, self.labels) for name, settings in rules]

    def _ngrams(self, layout, tensor, weights):
        """Weights of n-grams of label numbers, by tuple; L is the start of an example and L + 1 its end."""
        L = len(self.labels)
        start, end = (L,), (L + 1,)
        if layout.get("ngrams"):
            offsets, symbols = (tensor(layout["ngrams"][name]["array"]).tolist() for name in ("offsets", "symbols"))
            return {tuple(symbols[a:b]): weight for a, b, weight in zip(offsets, offsets[1:], weights)}
        grams = {}
        if len(self.transitions):
            grams |= {(a, b): self.transitions[0, a, b] for a in range(L) for b in range(L)}
        lengths = range(3, self.order + 2)
        longer = [gram for n in lengths for gram in itertools.product(range(L), repeat=n)]
        if self.ends:
            longer += [start + gram for n in lengths for gram in itertools.product(range(L), repeat=n - 1)]
            longer += [gram + end for n in lengths for gram in itertools.product(range(L), repeat=n - 1)]
            longer += [start + gram + end for n in lengths for gram in itertools.product(range(L), repeat=n - 2)]
        return grams | dict(zip(longer, weights))

    def scores_of_nodes(self, nodes, first, last):
        """Scores of all labels at all nodes. ``first`` and ``last`` are the nodes that get the weights of the ends."""
        X = np.zeros((len(nodes), len(self.node)))
        for t, node in enumerate(nodes):
            if isinstance(node, (dict, str, list, tuple, set)) and self.names is not None:
                for name, value in features(node):
                    if name in self.names:
                        X[t, self.names[name]] += value
            else:
                X[t, : self.n_features] = node
        if self.bias:
            X[:, self.n_features] = 1
        if self.ends:
            X[first, -2] = 1
            X[last, -1] = 1
        return X @ self.node

    def decode(self, example):
        """Return the highest score of a labelling, and the labels."""
        nodes, edges = (example, None) if self.kind != "Tree" else example
        if not len(nodes):
            raise Unsupported("the example has no nodes.")
        score, labels = self._tree(nodes, edges) if self.kind == "Tree" else self._chain(nodes)
        return score, [self.labels[k] for k in labels]

    def _chain(self, nodes):
        """Best path. A state is the last labels, preceded by the start, and the state of each rule."""
        n, L = len(nodes), len(self.labels)
        scores = self.scores_of_nodes(nodes, [0], [n - 1])
        gram = lambda history: sum(self.ngrams.get(history[-k:], 0.0) for k in range(2, len(history) + 1))  # noqa: E731
        best = {((L,), tuple(rule.start for rule in self.rules)): (0.0, None)}
        for t in range(n):
            reached = {}
            for (history, states), (score, path) in best.items():
                for a in range(L):
                    if (history[-1], a) in self.forbidden:
                        continue
                    after = tuple(rule.step(state, a) for rule, state in zip(self.rules, states))
                    if None in after:
                        continue
                    longer = (*history, a)
                    key = (longer[-self.order :], after)
                    total = score + gram(longer) + scores[t, a]
                    if key not in reached or total > reached[key][0]:
                        reached[key] = (total, (a, path))
            best = reached
        final = [
            (score + gram((*history, L + 1)), path)
            for (history, states), (score, path) in best.items()
            if all(rule.ends(state) for rule, state in zip(self.rules, states))
        ]
        if not final:
            raise ValueError("no labelling satisfies the rules.")
        score, path = max(final, key=lambda item: item[0])
        labels = []
        while path is not None:
            label, path = path
            labels.append(label)
        return float(score), labels[::-1]

    def _tree(self, nodes, edges):
        """Best labelling of a forest with edges (parent, child): from the leaves up, then down."""
        n, L = len(nodes), len(self.labels)
        children, parent = [[] for _ in range(n)], [-1] * n
        for a, b in edges:
            if parent[b] >= 0:
                raise Unsupported(f"node {b} has two parents; this decoder needs edges (parent, child).")
            parent[b] = a
            children[a].append(b)
        roots = [t for t in range(n) if parent[t] < 0]
        up = list(roots)
        for t in up:
            children[t].sort()
            up.extend(children[t])
        scores = self.scores_of_nodes(nodes, roots, [t for t in range(n) if not children[t]])
        labels_below = [[None] * L for _ in range(n)]  # for each label of a node, the best labels of its children
        for t in reversed(up):
            for a in range(L):
                total, labels_below[t][a] = self._best_children(a, children[t], scores)
                scores[t, a] += total
        labels = [0] * n
        for t in up:
            if parent[t] < 0:
                labels[t] = int(np.argmax(scores[t]))
            for child, label in zip(children[t], labels_below[t][labels[t]]):
                labels[child] = label
        return float(sum(scores[t].max() for t in roots)), labels

    def _best_children(self, a, children, scores):
        """Best labels of the children of a node with label a, from left to right, and their score."""
        best = {None: (0.0, ())}  # by the label of the left sibling
        for child in children:
            reached = {}
            for left, (score, labels) in best.items():
                for b in range(len(self.labels)):
                    if (a, b) in self.forbidden:
                        continue
                    total = score + self.transitions[0, a, b] + scores[child, b]
                    if self.siblings is not None and left is not None:
                        total += self.siblings[a, left, b]
                    key = b if self.siblings is not None else None
                    if key not in reached or total > reached[key][0]:
                        reached[key] = (total, (*labels, b))
            best = reached
        return max(best.values(), key=lambda item: item[0], default=(-math.inf, ()))


def features(node, prefix=""):
    """Yield the named features of a node with their values."""
    if not isinstance(node, dict):
        yield from ((name, 1.0) for name in ([node] if isinstance(node, str) else node))
        return
    for key, value in node.items():
        name = prefix + key
        if isinstance(value, str):
            yield f"{name}={value}", 1.0
        elif isinstance(value, dict):
            yield from features(value, f"{name}:")
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from ((f"{name}={text}", 1.0) for text in value)
        else:
            yield name, float(value)


# ---- rules -----------------------------------------------------------------------------------------------------------


class Rule:
    """Rule of a chain as a recursion over label numbers: ``step`` returns the next state, or None if it is broken."""

    def __init__(self, name, options, labels):
        make = {
            "Chunks": self._chunks, "StartsWith": self._starts, "EndsWith": self._last, "Never": self._never,
            "AtMostOnce": self._once, "Durations": self._durations, "Regex": self._regex,
        }  # fmt: skip
        if name not in make:
            raise Unsupported(f"the model has the rule {name}.")
        self.labels = labels
        self.number = {label: k for k, label in enumerate(labels)}
        self.start, self.step, self.ends = make[name](**options)

    def accepts(self, numbers):
        state = self.start
        for a in numbers:
            state = None if state is None else self.step(state, a)
        return state is not None and self.ends(state)

    def _chunks(self, scheme, outside, separator, inside):
        parts = []
        for label in self.labels:
            prefix, divided, kind = label.partition(separator)
            parts.append(("O", None) if label == outside else (prefix, kind if divided else ""))

        def step(state, a):
            prefix, kind = parts[a]
            opened = state[0] in ("B", inside)
            if prefix in (inside, "E"):
                return parts[a] if opened and state[1] == kind else None
            return None if opened and scheme == "bioes" else parts[a]

        return ("O", None), step, lambda state: scheme == "bio" or state[0] not in ("B", inside)

    def _starts(self, labels):
        allowed = {self.number[label] for label in labels}
        return False, lambda begun, a: True if begun or a in allowed else None, lambda state: True

    def _last(self, labels):
        allowed = {self.number[label] for label in labels} | {-1}
        return -1, lambda state, a: a, lambda state: state in allowed

    def _never(self, pairs):
        wrong = {(self.number[a], self.number[b]) for a, b in pairs}
        return -1, lambda state, a: None if (state, a) in wrong else a, lambda state: True

    def _once(self, labels, runs):
        once = {self.number[label] for label in labels}

        def step(state, a):
            used, last = state
            if a in used and not (runs and a == last):
                return None
            return (used | ({a} & once), a)

        return (frozenset(), -1), step, lambda state: True

    def _durations(self, limits):
        L = len(self.labels)
        low, high = [1] * L, [math.inf] * L
        if isinstance(limits, int):
            high = [limits] * L
        else:
            for label, (shortest, longest) in limits.items():
                low[self.number[label]] = shortest or 1
                high[self.number[label]] = longest or math.inf

        def long_enough(state):
            return state[0] < 0 or state[1] >= low[state[0]]

        def step(state, a):
            label, length = state
            if a == label:
                # an unlimited run needs no longer count than its shortest length
                return (a, min(length + 1, low[a]) if high[a] == math.inf else length + 1) if length < high[a] else None
            return (a, 1) if long_enough(state) else None

        return (-1, 0), step, long_enough

    def _regex(self, pattern):
        names = {str(label): k for k, label in enumerate(self.labels)}
        tree = Parser(pattern, names).tree
        return tree, lambda state, a: derivative(state, a) or None, can_end


# A pattern is a tree of tuples, and () matches nothing. Its derivative by a label matches what may follow the label.
EMPTY = ("empty",)


def joined(a, b):
    return () if not (a and b) else b if a == EMPTY else a if b == EMPTY else ("then", a, b)


def either(*trees):
    parts = frozenset().union(*(tree[1] if tree and tree[0] == "or" else {tree} for tree in trees)) - {()}
    return next(iter(parts), ()) if len(parts) < 2 else ("or", parts)


def can_end(tree):
    """Whether a pattern matches no labels."""
    if not tree or tree[0] == "labels":
        return False
    if tree[0] == "then":
        return can_end(tree[1]) and can_end(tree[2])
    return tree[0] in ("empty", "many") or any(map(can_end, tree[1]))


def derivative(tree, a):
    if not tree or tree == EMPTY:
        return ()
    if tree[0] == "labels":
        return EMPTY if a in tree[1] else ()
    if tree[0] == "or":
        return either(*(derivative(part, a) for part in tree[1]))
    if tree[0] == "many":
        return joined(derivative(tree[1], a), tree)
    after = joined(derivative(tree[1], a), tree[2])
    return either(after, derivative(tree[2], a)) if can_end(tree[1]) else after


class Parser:
    """Parses a pattern of labels: ``(a | b)* c{1,3} [^ d] .``"""

    TOKEN = re.compile(r"\s*(?:'([^']*)'|(\[\^|[()|*+?.\[\]])|\{(\d+)(,?)(\d*)\}|([^\s()|*+?.\[\]{}']+))")

    def __init__(self, pattern, numbers):
        self.numbers, self.tokens = numbers, []
        place, pattern = 0, pattern.rstrip()
        while place < len(pattern):
            match = self.TOKEN.match(pattern, place)
            quoted, sign, low, comma, high, label = match.groups()
            place = match.end()
            if sign or low:
                self.tokens.append(sign or (int(low), int(high) if high else None if comma else int(low)))
            else:
                self.tokens.append(("label", label if quoted is None else quoted))
        self.tokens.append("end")
        self.tree = self._alternatives()

    def _alternatives(self):
        trees = [self._sequence()]
        while self.tokens[0] == "|":
            self.tokens.pop(0)
            trees.append(self._sequence())
        return either(*trees)

    def _sequence(self):
        tree = EMPTY
        while self.tokens[0] not in ("end", "|", ")"):
            tree = joined(tree, self._repeated())
        return tree

    def _repeated(self):
        item = self._item()
        token = self.tokens[0]
        repeats = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if not (token in repeats or (isinstance(token, tuple) and token[0] != "label")):
            return item
        low, high = repeats.get(self.tokens.pop(0), token)
        tree = ("many", item) if high is None else EMPTY
        for _ in range(0 if high is None else high - low):
            tree = either(EMPTY, joined(item, tree))
        for _ in range(low):
            tree = joined(item, tree)
        return tree

    def _item(self):
        token = self.tokens.pop(0)
        if token == "(":
            tree = self._alternatives()
            self.tokens.pop(0)
            return tree
        everything = frozenset(self.numbers.values())
        if token == ".":
            return ("labels", everything)
        if token in ("[", "[^"):
            members = set()
            while self.tokens[0] != "]":
                members.add(self._number(self.tokens.pop(0)))
            self.tokens.pop(0)
            return ("labels", everything - members if token == "[^" else frozenset(members))
        return ("labels", frozenset([self._number(token)]))

    def _number(self, token):
        return self.numbers[token[1]]


def main(model_path, examples_path):
    model = Model(model_path)
    with open(examples_path, encoding="utf-8") as file:
        for line in file:
            example = json.loads(line)
            if isinstance(example, dict):
                example = (example["nodes"], example["edges"])
            print(json.dumps(model.decode(example)))


if __name__ == "__main__":
    main(*sys.argv[1:])
