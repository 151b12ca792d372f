"""How the tests are run: the same cases every time, and in the end a line about what was not."""

from __future__ import annotations

import re
import signal
from collections import Counter

import pytest
from hypothesis import settings

from maxendnet import _kernels

# No time limit for a single case: it would say more about what else the machine is doing than about the code. And the
# same cases in every run: whether a change is right should not depend on luck. `make test-long` draws new ones.
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.register_profile("random", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("same")

# scripts that tests and make targets run, and examples for type checkers; none of them has doctests
collect_ignore = ["faults", "fuzz", "typed_usage.py"]

# what scikit-learn's checks say when they skip themselves, in the words of this line
NEEDS_OF_SCIKIT_LEARN = {
    "pandas is not installed": "needs pandas (pip install pandas)",
    "SCIPY_ARRAY_API is not set": "needs the array API (set SCIPY_ARRAY_API=1)",
}


# A shell that starts a command in the background has it ignore Ctrl-C, and tests of Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Of a module, not of a test: hypothesis refuses fixtures that would be set up once for many cases.
@pytest.fixture(scope="module", params=_kernels.levels())
def every_level(request):
    """All tests of a module, once at every level of the kernels that this machine has."""
    with _kernels.at_level(request.param):
        yield request.param


# around all other summaries, so that the line stands directly above pytest's last one
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter, config):
    result = yield
    reasons = Counter(
        reason_of(report.longrepr[2])
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    parts = [skipped(reasons)] if reasons else []
    parts += ["not run: tests marked long (make test-long)"] if config.option.markexpr == "not long" else []
    if parts:
        terminalreporter.write_line("; ".join(parts))
    return result


def reason_of(text: str) -> str:
    text = re.sub("^Skipped: ", "", text)
    return next((ours for start, ours in NEEDS_OF_SCIKIT_LEARN.items() if text.startswith(start)), text)


def skipped(reasons: Counter[str]) -> str:
    """A reason ``needs X (how to get it)`` reads as ``7 tests need X (how to get it)``; others are said as they are.

    >>> skipped(Counter({"needs a browser (apt install it)": 2, "no pipes here": 1}))
    'skipped: 2 tests need a browser (apt install it), 1 test: no pipes here'
    """
    parts = []
    for reason, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        tests, needs = ("test", "needs") if n == 1 else ("tests", "need")
        needed = re.sub("^needs ", "", reason)
        parts.append(f"{n} {tests} {needs} {needed}" if needed != reason else f"{n} {tests}: {reason}")
    return "skipped: " + ", ".join(parts)
