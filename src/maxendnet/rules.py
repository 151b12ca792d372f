"""Rules: constraints on the labellings of chains, such as ``Chain(rules=[bio(), ends_with("stop")])``.

Rules can also be passed to ``predict`` alone: ``predict(X, rules=...)``.

| rule | valid labellings |
|---|---|
| `bio`, `bioes` | chunks in BIO or BIOES tags are complete |
| `never` | a label never directly follows another |
| `starts_with`, `ends_with` | the first or last node has one of the given labels |
| `at_most_once` | each of the given labels occurs at most once in an example |
| `regex` | the labels match a regular expression over labels |

The first five rules are pairwise, so they cost no time. The others need an automaton.
"""

from maxendnet.structures.rules import at_most_once, bio, bioes, ends_with, never, regex, starts_with

__all__ = ["at_most_once", "bio", "bioes", "ends_with", "never", "regex", "starts_with"]
