"""Job page: the line, attempts, artifacts, log and commands of one job."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.local_page import MANIFEST, SUBMISSION, LocalGrid, StoredObjects
from tests.unit.api.test_logs import FakeBackend
from traingrid.api import description
from traingrid.api import logs as reading
from traingrid.job.channels import manifest_uri
from traingrid.job.state import JobState
from traingrid.ui.job_page import job_page, log_tail

GRID = Path("my grid.yaml")


def page_of(local: LocalGrid, index: int = 0) -> dict[str, Any]:
    return job_page(local.plane, GRID, SUBMISSION, index)


def inputs_of(page: dict[str, Any]) -> dict[str, str]:
    return {name: text for name, text in page["settings"].items() if name == "data" or name.startswith("input ")}


def test_the_line_is_that_of_the_manifest_with_its_header(local: LocalGrid) -> None:
    local.submit(["night", "day"])
    line = page_of(local, 1)["line"]
    assert line == {"number": 3, "header": "region,s3_uri,name", "text": "us-west-2,s3://ragab-ml-pdx/campaign-1,day"}


def test_a_manifest_without_header_has_only_its_line(local: LocalGrid) -> None:
    local.submit(["night"])
    local.storage.objects[MANIFEST] = b"# a comment\nus-east-1,s3://ragab-ml/campaign-0\n"
    assert page_of(local)["line"]["header"] == ""


def test_the_last_command_submits_the_same_line_again(local: LocalGrid) -> None:
    local.submit(["o'neill"])
    commands = page_of(local)["commands"]
    assert list(commands.values())[-1] == (
        "cat >0123abcd-0.csv <<'END_OF_MANIFEST'\nregion,s3_uri,name\nus-east-1,s3://ragab-ml/campaign-0,o'neill\n"
        "END_OF_MANIFEST\ntraingrid --grid 'my grid.yaml' submit 0123abcd-0.csv"
    )
    assert shlex.split(commands["log"])[:3] == ["traingrid", "--grid", "my grid.yaml"]


@pytest.mark.parametrize("text", ["us-east-1,s3://b/\x1b[31m", "END_OF_MANIFEST"])
def test_a_line_that_is_dangerous_in_a_shell_has_no_command(local: LocalGrid, text: str) -> None:
    local.submit(["night"])
    local.storage.objects[MANIFEST] = f"region,s3_uri,name\n{text}\n".encode()
    assert not [command for command in page_of(local)["commands"].values() if "submit" in command]


def test_all_attempts_and_artifacts_are_listed(local: LocalGrid) -> None:
    (job,) = local.submit(["night"])
    key = local.train(job)
    local.ledger.next_attempt(key, {"region": job.region, "state": JobState.FAILED, "failure": "capacity"}, "us-west-2")
    page = page_of(local)
    assert [(one["attempt"], one["region"], one["failure"]) for one in page["attempts"]] == [
        (1, "us-east-1", "capacity"),
        (2, "us-west-2", ""),
    ]
    assert page["artifacts"]["results"].startswith("s3://")
    assert page["settings"]["hosts"] == ", ".join(f"algo-{host}" for host in range(1, job.instance_count + 1))


def test_a_folder_is_one_place_until_its_channels_are_known(local: LocalGrid) -> None:
    (job,) = local.submit(["night"])
    folder = "s3://ragab-ml/campaign-0"
    assert inputs_of(page_of(local)) == {"data": folder}
    local.train(job)
    assert inputs_of(page_of(local)) == {"data": folder}
    agreed = manifest_uri(job, f"traingrid-{SUBMISSION}-0", "channels")
    local.storage.objects[str(agreed)] = b'{"train": ""}'
    absent = "none: the folder has no data for it"
    assert inputs_of(page_of(local)) == {"input train": f"{folder}/", "input validation": absent}


def test_a_bucket_that_does_not_answer_leaves_the_rest_of_the_page(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> bytes:
        raise EndpointConnectionError(endpoint_url="https://s3.us-east-1.amazonaws.com")

    (job,) = local.submit(["night"])
    local.train(job)
    storage = StoredObjects()
    monkeypatch.setattr(storage, "read_if_exists", unreachable)
    monkeypatch.setattr(description, "Storage", lambda *_, **__: storage)
    assert inputs_of(page_of(local)) == {"data": "s3://ragab-ml/campaign-0"}


def test_the_log_has_the_last_lines_of_all_hosts(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = local.submit(["night"])
    local.train(job)
    name = f"traingrid-{SUBMISSION}-0"
    streams = {f"{name}/algo-1-1": [(1, "one"), (3, "\x1b[31mthree")], f"{name}/algo-2-1": [(2, "two")]}
    monkeypatch.setattr(reading, "logs_of", lambda *_: FakeBackend({name: streams}))
    lines, region, error = log_tail(local.plane, SUBMISSION, 0, 2)
    assert [(line["host"], line["text"]) for line in lines] == [("algo-2", "two"), ("algo-1", "\x1b[31mthree")]
    assert (region, error) == ("us-east-1", "")


def test_a_region_that_does_not_answer_is_an_error_of_the_log(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = local.submit(["night"])
    local.train(job)
    monkeypatch.setattr(reading, "logs_of", lambda *_: FakeBackend({}, down=True))
    lines, region, error = log_tail(local.plane, SUBMISSION, 0, 10)
    assert (lines, region) == ([], "us-east-1")
    assert error == str(EndpointConnectionError(endpoint_url="https://logs.eu-west-1.amazonaws.com"))


def test_a_job_without_training_job_has_no_log(local: LocalGrid) -> None:
    local.submit(["night"])
    assert log_tail(local.plane, SUBMISSION, 0, 10) == ([], "", "")
