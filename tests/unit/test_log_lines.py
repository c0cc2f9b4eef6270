"""Log lines: a child writes one JSON object per line, the sentence first, then the facts for queries."""

import json
from datetime import datetime

import pytest

from tests.support.ledger_items import job_key
from tests.support.recorded_log import Log
from tests.support.supervised_job import NAME, QUOTA_IS_USED_UP, supervisor
from tests.support.training_jobs import COMPLETED, TRAINING, FakeBackend
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.log_lines import log_line, readable


def test_a_log_line_starts_with_its_sentence_and_omits_empty_facts() -> None:
    line = log_line("trained: 99 %", event="ended", submission="0123abcd", index=0, failure="", region=None)
    assert line.startswith('{"message": "trained: 99 %"')
    said = json.loads(line)
    assert datetime.fromisoformat(said.pop("timestamp")).tzinfo is not None
    assert said == {
        "message": "trained: 99 %",
        "level": "INFO",
        "event": "ended",
        "submission": "0123abcd",
        "index": 0,
    }


def test_a_line_stays_one_line_and_is_readable_in_any_script() -> None:
    line = log_line("Verlust\n\tfür 損失", level="ERROR")
    assert "\n" not in line
    assert "für 損失" in line
    assert json.loads(line)["message"] == "Verlust\n\tfür 損失"


def test_log_lines_of_an_attempt_name_training_job_and_region(ledger: Ledger, job: Job) -> None:
    log = Log()
    watched = supervisor(job, FakeBackend(TRAINING, COMPLETED, lines=("loss=1",)), ledger, say=log)
    watched.run()
    assert [record["event"] for record in log.records] == ["launching", "state", "training", "state", "ended"]
    for record in log.records:
        assert (record["training_job"], record["attempt"], record["region"]) == (NAME, 1, job.region)
    (ended,) = log.of("ended")
    assert (ended["state"], ended["failure"]) == ("Completed", "")
    assert log.of("training")[0]["message"] == "loss=1"


def test_the_launch_time_is_logged_once_and_includes_quota_waits(ledger: Ledger, job: Job) -> None:
    log, backend = Log(), FakeBackend(TRAINING, TRAINING, COMPLETED)
    backend.refusals = [QUOTA_IS_USED_UP]
    supervisor(job, backend, ledger, say=log).run()
    (refused,) = log.of("refused")
    assert refused["failure"] == "quota"
    launches = [record for record in log.records if "launch_seconds" in record]
    assert [record["phase"] for record in launches] == ["Training"]
    # A child first describes a new training job after about five seconds, so it cannot be known to train before.
    assert 0 < refused["seconds"] <= launches[0]["launch_seconds"] <= refused["seconds"] + 8


def test_a_child_that_only_attaches_logs_no_launch_time(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job, job.regions)
    ledger.record_job(job_key(), {"state": JobState.IN_PROGRESS, "training_job": NAME, "training_job_arn": "arn"})
    log, backend = Log(), FakeBackend(TRAINING, TRAINING, COMPLETED)
    backend.created = [NAME]
    supervisor(job, backend, ledger, say=log).run()
    assert log.of("state")
    assert not [record for record in log.records if "launch_seconds" in record]


def test_readable_output_has_the_sentence_and_the_trace() -> None:
    line = log_line("KeyError: 'x'", level="ERROR", stack_trace=["  in a.py\n", "  in b.py\n"])
    when, *rest = readable(line).partition(" ")
    assert datetime.fromisoformat(when).tzinfo is not None
    assert "".join(rest) == " KeyError: 'x'\n  in a.py\n  in b.py"


@pytest.mark.parametrize("line", ["exec format error", "[1, 2]", "12", '{"loss": 0.5}', ""])
def test_a_log_line_in_another_format_is_unchanged(line: str) -> None:
    assert readable(line) == line
