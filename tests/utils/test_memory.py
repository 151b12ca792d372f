import math

import pytest

from maxendnet.utils import memory
from maxendnet.utils.memory import available_memory, check_memory


def test_the_memory_of_this_machine_is_known():
    assert 2**20 < available_memory() < 2**60


def test_a_container_limits_the_memory(monkeypatch):
    class Limited:
        def __init__(self, path):
            self.path = path

        def read_text(self):
            return {"/proc/meminfo": "MemAvailable:  2000 kB\n", "/sys/fs/cgroup/memory.max": "1000000\n"}[self.path]

    monkeypatch.setattr(memory, "Path", Limited)
    assert available_memory() == 1_000_000


def test_too_much_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    check_memory(2**30, "a table", "use a smaller one")
    with pytest.raises(
        ValueError, match=r"^a table needs at least 2 GiB of memory, but 1 GiB are available; use fewer\.$"
    ):
        check_memory(2**31, "a table", "use fewer")
    with pytest.raises(ValueError, match=r"but the limit is 10 bytes; use fewer\.$"):
        check_memory(11, "a table", "use fewer", most=10)
    monkeypatch.setattr(memory, "available_memory", lambda: math.inf)
    check_memory(2**100, "a table", "use fewer")
