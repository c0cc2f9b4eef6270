"""Logging: a child writes one JSON object per line, the message first, then the fields for queries."""

import json
import logging
import threading
from datetime import datetime
from typing import Any

import pytest

from tests.support.ledger_items import job_key
from tests.support.recorded_log import RecordedLog
from tests.support.supervised_job import NAME, QUOTA_IS_USED_UP, supervisor
from tests.support.training_jobs import COMPLETED, TRAINING, FakeBackend
from traingrid.errors import UsageError
from traingrid.job.facts import JobFacts
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.log import configure_child, configure_cli, extend_log_context, log_context, readable

logger = logging.getLogger("traingrid.tests")


Output = pytest.CaptureFixture[str]


def line(output: Output) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output.readouterr().out)
    return found


def test_a_log_line_starts_with_its_message_and_omits_empty_fields(capsys: Output) -> None:
    configure_child({})
    fields = {"event": "ended", "submission": "0123abcd", "index": 0, "failure": "", "region": None}
    logger.info("trained: 99 %", extra=fields)
    text, errors = capsys.readouterr()
    assert text.startswith('{"message": "trained: 99 %", "level": "INFO"')
    assert errors == ""
    record = json.loads(text)
    assert datetime.fromisoformat(record.pop("timestamp")).tzinfo is not None
    assert record == {
        "message": "trained: 99 %",
        "level": "INFO",
        "logger": "traingrid.tests",
        "event": "ended",
        "submission": "0123abcd",
        "index": 0,
    }


def test_a_field_may_have_a_name_that_records_reserve(capsys: Output) -> None:
    configure_child({})
    logger.info("begun", extra={"job_name": "mars"})
    assert line(capsys)["name"] == "mars"


def test_an_error_goes_to_stderr_as_one_line_in_any_script(capsys: Output) -> None:
    configure_child({})
    logger.error("Verlust\n\tfür 損失")
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.count("\n") == 1
    assert "für 損失" in errors
    assert json.loads(errors)["message"] == "Verlust\n\tfür 損失"


def test_an_exception_has_the_fields_of_lambdas_format(capsys: Output) -> None:
    configure_child({})
    try:
        raise KeyError("x")
    except KeyError:
        logger.exception("failed")
    record = json.loads(capsys.readouterr()[1])
    assert (record["message"], record["errorType"], record["errorMessage"]) == ("failed", "KeyError", "'x'")
    assert 'raise KeyError("x")' in record["stackTrace"][0]


def test_the_context_is_added_to_every_line_of_its_scope(capsys: Output) -> None:
    configure_child({})
    with log_context(submission="0123abcd", region="us-east-1"):
        extend_log_context(index=3)
        with log_context(region="eu-west-1", attempt=2):
            logger.info("inner")
            inner = line(capsys)
            logger.info("own field", extra={"region": ""})
            own = line(capsys)
        logger.info("outer")
        outer = line(capsys)
    logger.info("outside")
    assert (inner["submission"], inner["index"], inner["attempt"], inner["region"]) == ("0123abcd", 3, 2, "eu-west-1")
    assert "region" not in own
    assert (outer["index"], outer["region"], "attempt" in outer) == (3, "us-east-1", False)
    assert not {"submission", "index", "region"} & {*line(capsys)}


def test_threads_have_separate_contexts(capsys: Output) -> None:
    configure_child({})

    def other() -> None:
        with log_context(index=1):
            entered.set()
            leave.wait(120)

    entered, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=other)
    with log_context(index=0):
        thread.start()
        assert entered.wait(120)
        logger.info("in the first thread")
        leave.set()
        thread.join()
    assert line(capsys)["index"] == 0


@pytest.mark.parametrize(
    ("level", "written"),
    [("DEBUG", ["debug", "info", "error"]), ("INFO", ["info", "error"]), ("ERROR", ["error"]), ("", ["info", "error"])],
)
def test_the_level_of_a_child_is_set_by_a_variable(capsys: Output, level: str, written: list[str]) -> None:
    configure_child({"TRAINGRID_LOG_LEVEL": level})
    logger.debug("debug")
    logger.info("info")
    logger.error("error")
    logging.getLogger("botocore.auth").debug("a signature")
    assert [json.loads(text)["message"] for text in "".join(capsys.readouterr()).splitlines()] == written


@pytest.mark.parametrize("level", ["debug", "LOUD", "10", "NOTSET"])
def test_an_unknown_level_is_refused_with_the_permitted_ones(capsys: Output, level: str) -> None:
    with pytest.raises(UsageError) as error:
        configure_child({"TRAINGRID_LOG_LEVEL": level})
    assert "TRAINGRID_LOG_LEVEL" in error.value.what
    assert f"'{level}'" in error.value.what
    assert "DEBUG, INFO, WARNING, ERROR" in error.value.next_step
    logger.info("the error can be logged")
    assert line(capsys)["message"] == "the error can be logged"


def test_a_second_set_up_replaces_the_first(capsys: Output) -> None:
    configure_child({})
    configure_child({})
    logger.info("once")
    assert capsys.readouterr()[0].count("once") == 1
    configure_cli(verbose=True)
    logger.info("as text")
    output, errors = capsys.readouterr()
    assert (output, errors.endswith("INFO traingrid.tests: as text\n")) == ("", True)


def test_text_for_a_terminal_has_no_control_characters(capsys: Output) -> None:
    configure_cli(debug=True)
    logger.debug("a key: \x1b[2J")
    assert "a key: \\x1b[2J" in capsys.readouterr()[1]


def test_log_lines_of_an_attempt_name_training_job_and_region(ledger: Ledger, job: Job, log: RecordedLog) -> None:
    supervisor(job, FakeBackend(TRAINING, COMPLETED, lines=("loss=1",)), ledger).run()
    assert [record["event"] for record in log.lines] == ["launching", "state", "training", "state", "ended"]
    for record in log.lines:
        assert (record["training_job"], record["attempt"], record["region"]) == (NAME, 1, job.region)
    (ended,) = log.of("ended")
    assert (ended["state"], "failure" in ended) == ("Completed", False)
    assert log.of("training")[0]["message"] == "loss=1"


def test_the_launch_time_is_logged_once_and_includes_quota_waits(ledger: Ledger, job: Job, log: RecordedLog) -> None:
    backend = FakeBackend(TRAINING, TRAINING, COMPLETED)
    backend.refusals = [QUOTA_IS_USED_UP]
    supervisor(job, backend, ledger).run()
    (refused,) = log.of("refused")
    assert refused["failure"] == "quota"
    launches = [record for record in log.lines if "launch_seconds" in record]
    assert [record["phase"] for record in launches] == ["Training"]
    # A child first describes a new training job after about five seconds, so it cannot be known to train before.
    assert 0 < refused["seconds"] <= launches[0]["launch_seconds"] <= refused["seconds"] + 8


def test_a_child_that_only_attaches_logs_no_launch_time(ledger: Ledger, job: Job, log: RecordedLog) -> None:
    ledger.open_job("0123abcd", job, job.regions)
    running: JobFacts = {"state": JobState.IN_PROGRESS, "training_job": NAME, "training_job_arn": "arn"}
    ledger.record_job(job_key(), running)
    backend = FakeBackend(TRAINING, TRAINING, COMPLETED)
    backend.created = [NAME]
    supervisor(job, backend, ledger).run()
    assert log.of("state")
    assert not [record for record in log.lines if "launch_seconds" in record]


@pytest.mark.parametrize("field", ["stack_trace", "stackTrace"])
def test_readable_output_has_the_message_and_the_trace(capsys: Output, field: str) -> None:
    configure_child({})
    logger.info("KeyError: 'x'", extra={field: ["  in a.py\n", "  in b.py\n"]})
    when, *rest = readable(capsys.readouterr()[0]).partition(" ")
    assert datetime.fromisoformat(when).tzinfo is not None
    assert "".join(rest) == " KeyError: 'x'\n  in a.py\n  in b.py"


@pytest.mark.parametrize("text", ["exec format error", "[1, 2]", "12", '{"loss": 0.5}', ""])
def test_a_log_line_in_another_format_is_unchanged(text: str) -> None:
    assert readable(text) == text
