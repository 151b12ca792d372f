"""Rules for the labellings of chains: ``Chain(rules=[bio(), ends_with("stop")])``, or at prediction alone.

| rule | labellings that keep it |
|---|---|
| `bio`, `bioes` | chunks in BIO or BIOES tags are whole |
| `never` | some labels never follow others at once |
| `starts_with`, `ends_with` | the first, the last node has one of some labels |
| `at_most_once` | some labels come at most once in an example |
| `regex` | the labels match a regular expression, whose letters are labels |

The first five rules are pairwise: they take no time. The others remember more than the last label.
"""

from maxendnet.structures.rules import at_most_once, bio, bioes, ends_with, never, regex, starts_with

__all__ = ["at_most_once", "bio", "bioes", "ends_with", "never", "regex", "starts_with"]
