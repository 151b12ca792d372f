"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str], form: str = "{!r}") -> str:
    """Return a sentence for messages that suggests a similar name, or an empty string.

    Examples
    --------
    >>> did_you_mean("chian", ["chain", "tree"])
    " Did you mean 'chain'?"
    >>> did_you_mean("lbfgs", ["LBFGS", "SMO"], "{}()")
    ' Did you mean LBFGS()?'
    """
    from difflib import get_close_matches  # slow to import

    lower = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), lower, n=1)
    return f" Did you mean {form.format(lower[near[0]])}?" if near else ""
