"""Short ids in init_from: completed before a manifest is uploaded."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.sample_deployment import SAMPLE_BUCKETS
from traingrid.api import initial_model_ids
from traingrid.api.source_folders import packed
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger

DATA = f"s3://{SAMPLE_BUCKETS['us-east-1']}/x"


@pytest.fixture
def known(ledger: Ledger) -> Ledger:
    """A ledger with three submissions, of which two begin with the same characters."""
    for submission in ("0123abcd", "0123abce", "89abcdef"):
        ledger.claim_submission(submission, "test", {"manifest": "s3://m/a.csv", "jobs": 1})
    return ledger


def content_of(text: str, deployment: Deployment) -> str:
    return packed(Path("m.jsonl"), deployment, text.encode()).content.decode()


def line(named: object) -> str:
    return json.dumps({"region": "us-east-1", "s3_uri": DATA, "init_from": named})


def test_the_first_characters_of_an_id_become_the_full_id(known: Ledger, deployment: Deployment) -> None:
    assert content_of(f"{line('89/3')}\n", deployment) == f"{line('89abcdef/3')}\n"
    table = f"# a comment\nregion,init_from,s3_uri\r\nus-east-1,0123abcd/0,{DATA}\r\nus-east-1, 8/1 ,{DATA}\r\n"
    assert content_of(table, deployment) == table.replace(" 8/1 ", "89abcdef/1")


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("0123/0", "m.jsonl:1: init_from 0123/0: 2 submissions start with 0123: 0123abc"),
        ("ff/0", "m.jsonl:1: init_from ff/0: "),
    ],
)
def test_other_characters_are_refused_with_the_line(
    known: Ledger, deployment: Deployment, named: str, text: str
) -> None:
    with pytest.raises(UsageError) as error:
        content_of(line(named), deployment)
    assert str(error.value).startswith(text)
    assert error.value.next_step


@pytest.mark.parametrize("named", ["89abcdef/3", "day1", 7, "0123abcd9/0"])
def test_other_values_are_left_to_the_check_of_the_manifest(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, named: object
) -> None:
    monkeypatch.setattr(initial_model_ids, "Ledger", None)
    assert content_of(line(named), deployment) == line(named)


def test_a_user_who_may_not_list_the_ledger_writes_the_full_id(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Denied:
        def __init__(self, *_: Any) -> None: ...

        def submissions(self) -> None:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Query")

    monkeypatch.setattr(initial_model_ids, "Ledger", Denied)
    with pytest.raises(UsageError, match=r"m\.jsonl:1: init_from 89/0: .*dynamodb:Query.* Write all 8 characters\."):
        content_of(line("89/0"), deployment)
