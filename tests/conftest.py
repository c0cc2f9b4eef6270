import os

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.interrupts import allow_interrupts

pytest_plugins = ["tests.support.lanes", "tests.support.skipped_tests"]
# Read when the CDK starts. Its validation of templates takes more than half of the CPU time of a synthesis;
# tests/integration/posture runs it on every kind of grid.
os.environ["CDK_VALIDATION"] = "false"
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
allow_interrupts()


FIRST = "tests/integration/verification/faults/test_suite.py"
"""The file that takes longest of all. It starts first; otherwise its worker ends minutes after the others."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--row`, which selects rows of tables (tests/support/rows.py)."""
    parser.addoption("--row", default="", metavar="TEXT", help="check only the rows of tables with TEXT in their names")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of `FIRST` to the start."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


class Scheduling(LoadFileScheduling):
    """Gives a worker whole files, whose tests share deployments, or all posture tests, which share grids."""

    def _split_scope(self, nodeid: str) -> str:
        folder = "tests/integration/posture/"
        return folder if nodeid.startswith(folder) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    """Replace the scheduling of `--dist`."""
    return Scheduling(config, log)
