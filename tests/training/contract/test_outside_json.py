"""Outside JSON: text that is none is reported in one sentence by each reader, and never ends in another error."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from training_container import outside_json
from training_container.contract import rank_variables, toolkit
from training_container.contract.training_job import ContractError, Folders, _read_json
from training_container.launcher.failure import _PREFIX, FailureWatch
from training_container.metric_history.settings import PREFIX, _metrics
from training_container.trainer.checkpoints.files import STATE, BrokenCheckpointError, read_state
from training_container.trainer.data.channels import ChannelError, declared
from training_container.trainer.data.record_index import stored

NESTED = ["[" * 100_000, '{"a": ' * 100_000, "[" * 101 + "]" * 101]
NONE = [*NESTED, "", "{", "1" * 5000, "nul"]


@pytest.mark.parametrize("text", NONE, ids=lambda text: f"{text[:6]}{len(text)}")
def test_text_that_is_no_json_of_limited_size_is_a_value_error(text: str) -> None:
    for given in (text, text.encode()):
        with pytest.raises(ValueError):  # noqa: PT011  # of json or of this module, which no caller distinguishes
            outside_json.loads(given)


@pytest.mark.parametrize("text", ["[" * 100 + "]" * 100, '{"a": [1, 2.5, null]}', json.dumps([[1]] * 1000)])
def test_other_json_is_read(text: str) -> None:
    assert outside_json.loads(text) == json.loads(text)


def test_bytes_that_are_no_utf_8_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        outside_json.loads(b'{"a": "\xe9"}')


def _file(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def _declared(folder: Path, text: str) -> object:
    (folder / "input/config").mkdir(parents=True)
    _file(folder / "input/config", "inputdataconfig.json", text)
    return declared(Folders(base=folder))


READERS: dict[str, tuple[Callable[[Path, str], object], type[Exception]]] = {
    "a file of SageMaker": (lambda folder, text: _read_json(_file(folder, "x.json", text)), ContractError),
    "channels": (_declared, ChannelError),
    "a checkpoint": (lambda folder, text: read_state(_file(folder, STATE, text).parent), BrokenCheckpointError),
    "metrics": (lambda _folder, text: _metrics({f"{PREFIX}0": text}), ValueError),
}


@pytest.mark.parametrize("text", [*NONE, "[]", "7", '"x"'], ids=lambda text: f"{text[:6]}{len(text)}")
@pytest.mark.parametrize("name", READERS)
def test_a_reader_reports_other_text_in_a_sentence(tmp_path: Path, name: str, text: str) -> None:
    read, error = READERS[name]
    with pytest.raises(error) as raised:
        read(tmp_path, text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("text", NONE, ids=lambda text: f"{text[:6]}{len(text)}")
def test_a_lenient_reader_takes_other_text_as_absent(tmp_path: Path, text: str) -> None:
    assert stored(_file(tmp_path, "index.json", text)) == {}
    assert toolkit._decode(text) == text
    assert rank_variables.position({"SM_HOSTS": text}) == rank_variables.Position()
    assert FailureWatch(hosts=["a"], processes_per_host=1).passes(f"{_PREFIX}{text}")


@pytest.mark.parametrize("records", ["1e400", str(2**70)])
def test_an_index_with_an_enormous_number_is_counted(tmp_path: Path, records: str) -> None:
    entry = f'{{"files": {{"x": {{"size": 1e400, "records": {records}, "starts": [{2**70}]}}}}}}'
    assert stored(_file(tmp_path, "index.json", entry)) == {}
