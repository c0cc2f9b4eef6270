"""SIGTERM of a child whose code discards the exception of the handler, or turns it into another error."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from traingrid.child import main as orchestrator
from traingrid.child.main import run_child
from traingrid.child.sigterm import Sigterm
from traingrid.child.supervisor import LetGoError
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment

ENVIRONMENT = {
    "TRAINGRID_ACCOUNT": "123456789012",
    "TRAINGRID_TABLE": "ledger",
    "TRAINGRID_MANIFEST_BUCKET": "manifests",
    "S3_ARRAY_FILE": "s3://manifests/by-hand/x.csv",
    "AWS_BATCH_JOB_ID": "11111111-2222",
}

FIRST_VALIDATIONS = """
import os, random, signal, sys, time
from traingrid.child import main as orchestrator

def first_step(_environment):
    os.write(ready, b".")

def with_stored_jobs(*_):
    time.sleep(30)

orchestrator.configure_child, orchestrator.with_stored_jobs = first_step, with_stored_jobs
for number in range(150):
    wait, ready = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(orchestrator.run_child(os.environ))
    os.close(ready)
    os.read(wait, 1)
    time.sleep(random.uniform(0, 0.02))
    os.kill(child, signal.SIGTERM)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(wait)
    if status != 75:
        sys.exit(f"child {number} ended with {status}")
"""
"""A program whose children read grid.yaml for the first time while they receive SIGTERM, which interrupts pydantic."""


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in previous.items():
        signal.signal(number, handler)


def test_a_child_is_retried_if_sigterm_interrupts_its_first_validations(deployment: Deployment) -> None:
    environment = {**os.environ, **ENVIRONMENT, "TRAINGRID_GRID": deployment.grid.to_environment()}
    ended = subprocess.run(
        [sys.executable, "-c", FIRST_VALIDATIONS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_a_child_is_retried_if_sigterm_causes_a_permanent_error(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_stored_jobs(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except LetGoError:  # as extensions do that call Python
            raise UsageError("The line is wrong.", "Fix it.") from None

    monkeypatch.setattr(orchestrator, "with_stored_jobs", with_stored_jobs)
    assert run_child({**ENVIRONMENT, "TRAINGRID_GRID": deployment.grid.to_environment()}) == 75


def test_a_held_signal_ends_the_block_instead_of_its_error() -> None:
    sigterm, done = Sigterm(), []
    sigterm.install()

    def block() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("the block continues")
        raise ValueError

    with pytest.raises(LetGoError), sigterm.held():
        block()
    assert done
    assert sigterm.received


def test_a_block_without_a_signal_raises_its_own_error() -> None:
    sigterm = Sigterm()
    sigterm.install()
    with pytest.raises(ValueError, match="wrong"), sigterm.held():
        raise ValueError("wrong")
    with pytest.raises(LetGoError):
        os.kill(os.getpid(), signal.SIGTERM)
