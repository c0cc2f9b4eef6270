"""TensorFlow's profile of some steps, where TensorBoard and `traingrid tensorboard` find it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.trainer.test_epoch_end import started
from training_container.contract.profiled_steps import VARIABLE, ProfiledSteps
from training_container.contract.training_job import ContractError, Folders
from training_container.trainer.reporting.step_profiler import StepProfiler

pytestmark = [
    pytest.mark.usefixtures("one_rank"),
    pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning"),
]


@pytest.fixture
def folders(job: Callable[..., Folders]) -> Folders:
    return job(train=[1, 2, 3, 4, 5, 6, 7, 8], validation=[1, 2])


def profiles(folders: Folders) -> list[Path]:
    return sorted(folders.tensorboard.glob("plugins/profile/*/*"))


def test_a_profile_of_the_steps_is_written_for_tensorboard(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2-3")
    training = started(folders, epochs=1)
    training.run()
    (written,) = profiles(folders)
    assert written.name.endswith(".xplane.pb")
    content = written.read_bytes()
    assert b"train" in content
    assert training.state.progress.step == 4


def test_a_training_without_the_variable_writes_no_profile(folders: Folders) -> None:
    started(folders, epochs=1).run()
    assert profiles(folders) == []


def test_a_profile_whose_last_step_does_not_come_ends_with_the_training(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "4-9")
    started(folders, epochs=1).run()
    assert len(profiles(folders)) == 1


def test_steps_after_the_end_of_the_training_are_reported(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "9-10")
    started(folders, epochs=1).run()
    assert "There is no profile: the training ended after step 4, before step 9." in capsys.readouterr().out
    assert profiles(folders) == []


def test_a_profiler_that_cannot_start_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def taken(_folder: str) -> None:
        raise tf.errors.AlreadyExistsError(None, None, "Another profiler is running.")

    monkeypatch.setattr(tf.profiler.experimental, "start", taken)
    written: list[bool] = []
    profiler = StepProfiler(ProfiledSteps(first=1, last=2), tmp_path, lambda: written.append(True))
    for step in (1, 2, 3):
        with profiler.step(step):
            pass
    profiler.end(3)
    assert capsys.readouterr().out.count("The profiler cannot start") == 1
    assert written == []


@pytest.mark.parametrize("text", ["3-2", "0-4", "1", "a-b", "-1-4", "1-"])
def test_a_malformed_variable_is_refused(text: str) -> None:
    with pytest.raises(ContractError, match="it must be FIRST-LAST"):
        ProfiledSteps.from_environment({VARIABLE: text})


def test_a_job_without_the_variable_has_no_steps() -> None:
    assert ProfiledSteps.from_environment({}) is None
