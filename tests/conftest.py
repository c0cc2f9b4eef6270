import gc
import os
import sys
from collections.abc import Iterator

import boto3
import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.interrupts import allow_interrupts
from tests.support.leftovers import ProcessState

pytest_plugins = ["tests.support.file_order", "tests.support.lanes", "tests.support.skipped_tests"]
# Read when the CDK starts. Its validation of templates takes more than half of the CPU time of a synthesis;
# tests/integration/posture runs it on every kind of grid.
os.environ["CDK_VALIDATION"] = "false"
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
os.environ.pop("TRAINGRID_GRID_FILE", None)  # the developer's own grid
allow_interrupts()
# The libraries of the tests have millions of objects. Searching them for cycles as often as by default takes a third of
# the processor time of some folders.
gc.set_threshold(100_000, 50, 100)


E2E = ("encrypted_grid", "kubernetes", "longer_trainings", "two_regions")
FOLDERS = (
    "tests/integration/posture/",
    *(f"tests/e2e/{name}/" for name in E2E),
    "tests/integration/verification/faults/test_suite.py",
    "tests/integration/verification/",
)
"""The folders whose files share grids; and one whose files mostly wait, beside the longest of them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--row`, which selects rows of tables (tests/support/rows.py)."""
    parser.addoption("--row", default="", metavar="TEXT", help="check only the rows of tables with TEXT in their names")


@pytest.fixture(scope="module", autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a file that changes the process for the files after it."""
    before, default_session = ProcessState(), boto3.DEFAULT_SESSION
    yield
    if clients := sys.modules.get("traingrid.aws.clients"):
        clients.renew()  # they are cached on purpose, with their credentials
    boto3.DEFAULT_SESSION = default_session  # boto3 creates it at the first use and keeps its credentials
    leftovers = before.leftovers()
    if leftovers:
        pytest.fail(f"{request.path.relative_to(request.config.rootpath)} leaves behind: {', '.join(leftovers)}")


class Scheduling(LoadFileScheduling):
    """Gives a worker whole files, whose tests share deployments, or all tests of one of `FOLDERS`."""

    def _split_scope(self, nodeid: str) -> str:
        shared = (folder for folder in FOLDERS if nodeid.startswith(folder))
        return next(shared, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)  # with `-p no:xdist` nothing declares this hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    """Replace the scheduling of `--dist`."""
    return Scheduling(config, log)
