import pytest

from maxendnet.experiments.engine.cells import workers


@pytest.fixture(scope="session")
def two_processes():
    """Started once: most of their time is the import of the library."""
    with workers(2) as pool:
        yield pool
