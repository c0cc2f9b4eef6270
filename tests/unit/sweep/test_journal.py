"""Journal: numbered entries that are created once."""

import pytest

from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.submission.journal import Begun, Journal, JournalMovedError
from traingrid.sweep.journal import Ended, Entry, NewTrial, OutOfBudget, TrialBatch, sweep_journal
from traingrid.sweep.spec import Parameters


@pytest.fixture
def journal(storage: Storage, deployment: Deployment) -> Journal[Entry]:
    return sweep_journal(storage, deployment.manifest_bucket, "rates")


def again(storage: Storage, deployment: Deployment) -> Journal[Entry]:
    return sweep_journal(storage, deployment.manifest_bucket, "rates")


def test_entries_are_read_as_they_were_written(
    journal: Journal[Entry], storage: Storage, deployment: Deployment
) -> None:
    parameters: Parameters = {"rate": 1.0, "tiny": 1e-17, "third": 1 / 3, "depth": 1, "name": "1", "flag": True}
    trials = (NewTrial(number=0, line=0, region="us-east-1", parameters=parameters),)
    written: list[Entry] = [
        Begun(spec={"seed": 0}),
        TrialBatch(trials=trials, manifest="{}\n"),
        OutOfBudget(dollars=1.5, budget=1.0),
    ]
    written.append(Ended(trial=0, index=0, state="Failed", region="us-east-1", value=None))
    assert [journal.append(entry) for entry in written] == [0, 1, 2, 3]
    read = again(storage, deployment).refresh()
    assert read == written
    assert isinstance(read[1], TrialBatch)
    assert {name: type(value) for name, value in read[1].trials[0].parameters.items()} == {
        name: type(value) for name, value in parameters.items()
    }


def test_a_taken_number_is_not_overwritten(journal: Journal[Entry], storage: Storage, deployment: Deployment) -> None:
    journal.append(Begun(spec={"seed": 0}))
    other = again(storage, deployment)
    with pytest.raises(JournalMovedError):
        other.append(Begun(spec={"seed": 0}))
    assert other.refresh() == journal.entries


def test_a_repeated_request_after_a_lost_reply_is_our_entry(
    journal: Journal[Entry], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Storage.write_if_none

    def repeated(self: Storage, uri: S3Uri, content: bytes, content_type: str) -> bool:
        write(self, uri, content, content_type)
        return write(self, uri, content, content_type)

    monkeypatch.setattr(Storage, "write_if_none", repeated)
    assert journal.append(Begun(spec={})) == 0


def test_a_missing_entry_is_an_error(journal: Journal[Entry], storage: Storage, deployment: Deployment) -> None:
    storage.write(S3Uri(deployment.manifest_bucket, "sweeps/rates/000001.json"), b"{}", "application/json")
    with pytest.raises(TraingridError, match=r"has no entry before .*000001\.json"):
        journal.refresh()


def test_another_object_is_not_an_entry(journal: Journal[Entry], storage: Storage, deployment: Deployment) -> None:
    storage.write(S3Uri(deployment.manifest_bucket, "sweeps/rates/000000.json"), b'{"kind": "x"}', "application/json")
    with pytest.raises(TraingridError, match=r"000000\.json is not an entry of a sweep's journal"):
        journal.refresh()
