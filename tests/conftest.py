import os
import signal
from collections.abc import Iterator

import pytest
from xdist.scheduler import LoadFileScheduling

# Read when the CDK starts. Its validation of templates takes more than half of the CPU time of a synthesis;
# tests/integration/posture runs it on every kind of grid.
os.environ["CDK_VALIDATION"] = "false"
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")


class Scheduling(LoadFileScheduling):
    """Gives a worker whole files, whose tests share deployments, or all posture tests, which share grids."""

    def _split_scope(self, nodeid: str) -> str:
        folder = "tests/integration/posture/"
        return folder if nodeid.startswith(folder) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    """Replace the scheduling of `--dist`."""
    return Scheduling(config, log)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Restore SIGINT's default handler: a shell starts background processes with SIGINT ignored, which is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
