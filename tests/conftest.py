import pytest
from hypothesis import settings

from maxendnet import _kernels

# A time limit for a single case would say more about what else the machine is doing than about the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


# Of a module, not of a test: hypothesis refuses fixtures that would be set up once for many cases.
@pytest.fixture(scope="module", params=_kernels.levels())
def every_level(request):
    """All tests of a module, once at every level of the kernels that this machine has."""
    with _kernels.at_level(request.param):
        yield request.param
