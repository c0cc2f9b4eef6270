"""Manifest corpus: every invalid manifest causes the expected error and changes nothing."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings

from tests.support.rows import each_row
from tests.support.sample_deployment import REGIONS, SAMPLE, SAMPLE_BUCKETS, sample_deployment
from tests.unit.manifest.corpus import MAX_JOBS, Case, bytes_cases, csv_cases, json_cases, value_cases
from traingrid.aws.s3_uri import S3Uri
from traingrid.grid.limits import SubmissionLimits
from traingrid.ledger.rejections import Rejection
from traingrid.manifest.errors import MAX_REPORTED_ERRORS, LineError, ManifestError
from traingrid.manifest.line import Line, iter_jobs, jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.submission.files import normalised
from traingrid.submission.intake import Intake, ManifestVersion
from traingrid.text import escaped_cell
from verification.faults.agreement import disagreements
from verification.faults.generated_manifests import Manifest, manifests

SMALL_GRID = sample_deployment().grid.model_copy(update={"limits": SubmissionLimits(jobs=MAX_JOBS)})
DEPLOYMENT = replace(sample_deployment(), grid=SMALL_GRID)
CASES = [*bytes_cases.cases(), *csv_cases.cases(), *json_cases.cases(), *value_cases.cases()]


class Untouchable:
    """A service that fails the test on any call."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was asked for")


class EmptyLedger(Untouchable):
    """A ledger without submissions, which only accepts the record of a rejected manifest."""

    def __init__(self) -> None:
        self.rejections: list[Rejection] = []

    def submission(self, _submission: str) -> None:
        return None

    def record_rejection(self, rejection: Rejection) -> None:
        self.rejections.append(rejection)


class OneManifest:
    """S3 with one manifest, which accepts only the report."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.written: list[tuple[S3Uri, Any]] = []

    def pieces(self, uri: S3Uri, version: str) -> tuple[int, Iterator[bytes]]:
        pieces = (self.content[start : start + 65_536] for start in range(0, len(self.content), 65_536))
        return min(len(self.content), 1_000), pieces  # a wrong size: the intake must count the bytes itself

    def write_json(self, uri: S3Uri, document: object) -> None:
        self.written.append((uri, document))


def rejected(content: bytes) -> dict[str, Any]:
    """Return the report of a manifest, after checking that nothing else was written."""
    storage: Any = OneManifest(content)
    nothing: Any = Untouchable()
    source = ManifestVersion(uri=S3Uri("bucket", "manifests/x.csv"), version="1")
    ledger: Any = EmptyLedger()
    intake = Intake(deployment=DEPLOYMENT, storage=storage, ledger=ledger, batch=nothing)
    report = intake.accept(source, owner="request")
    assert [uri for uri, _ in storage.written] == [source.report, source.own_report]
    (rejection,) = ledger.rejections
    assert rejection.errors == report["errors_in_total"]
    assert len(rejection.sentence) < 4_000
    return report


def assert_clear(error: ManifestError) -> None:
    assert error.total >= len(error.errors) > 0
    for found in error.errors:
        assert found.field
        assert found.reason
        assert found.next_step.endswith((".", "?"))
        assert str(found).isprintable(), "control characters reach a log"


def test_the_corpus_has_two_hundred_different_manifests() -> None:
    assert len(CASES) >= 200
    assert len({case.content for case in CASES}) == len({case.name for case in CASES}) == len(CASES)


@each_row("case", ((ascii(case.name), case) for case in CASES))
def test_a_bad_manifest_gives_its_error_and_changes_nothing(case: Case) -> None:
    report = rejected(case.content)
    assert report["state"] == "rejected"
    first = report["errors"][0]
    assert first["field"] == case.field
    assert case.reason in first["reason"]
    assert_clear(ManifestError([LineError(**error) for error in report["errors"]], report["errors_in_total"]))
    assert len(json.dumps(report)) < 1_000_000


SHORT = [
    case
    for case in CASES
    if len(case.content) < 2_000 and case.field != "file" and not set(b"\r\n") & set(case.content.strip())
]


@each_row("case", ((ascii(case.name), case) for case in SHORT))
def test_one_invalid_line_rejects_the_file_and_is_named_by_number(case: Case) -> None:
    is_json = case.content.startswith((b"{", b"["))
    good = b'{"region": "us-east-1", "s3_uri": "s3://ragab-ml/x"}\n' if is_json else SAMPLE.encode()
    before = good.count(b"\n")
    errors = rejected(good + case.content.removeprefix(b"\xef\xbb\xbf") + b"\n" + good)["errors"]
    assert {error["line"] for error in errors} == {before + 1}


def test_the_errors_of_garbage_are_counted_and_only_the_first_are_kept() -> None:
    words = itertools.count()
    lines = "\n".join("{" + ", ".join(f'"w{next(words)}": 1' for _ in range(30)) + "}" for _ in range(500))
    with pytest.raises(ManifestError) as caught:
        parse(lines.encode(), DEPLOYMENT)
    assert caught.value.total == 500 * 20, "of one line no more than twenty"
    assert len(caught.value.errors) == MAX_REPORTED_ERRORS


def _json_manifest() -> bytes:
    def line(number: int) -> dict[str, Any]:
        region = REGIONS[number % 4]
        uri = f"s3://{SAMPLE_BUCKETS[region]}/campaign-{number}"
        return {"region": region, "s3_uri": uri, "hyperparameters": {"epochs": number}, "tags": {"team": "perception"}}

    return b"".join(json.dumps(line(number)).encode() + b"\n" for number in range(8))[:1024]


def _csv_manifest() -> bytes:
    rows = "region,s3_uri,hp.epochs,env.SEED\n" + "".join(f"us-east-1,s3://ragab-ml/{n},{n},{n}\n" for n in range(13))
    return rows.encode()[:-8]


PLAIN = (SAMPLE * 3).encode()[:-8]
MANIFESTS = pytest.mark.parametrize(
    "content", [PLAIN, _csv_manifest(), _json_manifest()], ids=["plain", "header", "JSON Lines"]
)


@MANIFESTS
def test_a_truncated_manifest_is_rejected_or_shortens_one_line(content: bytes) -> None:
    whole = [line for line in content.splitlines() if line.strip()]
    for cut in range(len(content)):
        try:
            lines = parse(content[:cut], DEPLOYMENT)
        except ManifestError as error:
            assert_clear(error)
            continue
        assert len(lines) <= len(whole)
        for line in lines[:-1]:
            alone = _alone(content, line.number)
            assert (alone.region, alone.data) == (line.region, line.data)


@cache
def _alone(content: bytes, number: int) -> Line:
    lines = content.splitlines(keepends=True)
    header = lines[0] if lines[0].startswith(b"region") else b""
    (line,) = parse(header + lines[number - 1], DEPLOYMENT)
    return line


@MANIFESTS
def test_a_truncated_manifest_with_a_declared_number_is_rejected(content: bytes) -> None:
    content = content[: content.rindex(b"\n") + 1]
    jobs = len(parse(content, DEPLOYMENT))
    promising = f"# jobs: {jobs}\n".encode() + content
    assert len(parse(promising, DEPLOYMENT)) == jobs
    for cut in range(promising.index(b"\n") + 1, len(promising)):
        with pytest.raises(ManifestError):
            parse(promising[:cut], DEPLOYMENT)


@settings(max_examples=300, deadline=None)
@given(manifests(SAMPLE_BUCKETS))
def test_any_manifest_is_accepted_whole_or_rejected_with_all_errors(made: Manifest) -> None:
    try:
        parsed = parse(made.content, DEPLOYMENT)
    except ManifestError as error:
        assert_clear(error)
        return
    jobs = jobs_of_lines(parsed, DEPLOYMENT, "0123abcd")
    assert [job.index for job in jobs] == list(range(len(parsed)))
    assert all(job.region in REGIONS and job.ranks >= 1 for job in jobs)
    assert normalised(iter_jobs(parsed, DEPLOYMENT, "0123abcd")) == normalised(jobs), "accepted lines round-trip"
    if not made.damaged:
        assert list(disagreements(made, parsed, DEPLOYMENT)) == []


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("+1-800", "'+1-800"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\\t=1"),
        ("  =1", "'  =1"),
        ("-1.5e-3", "-1.5e-3"),
        ("+7", "+7"),
        ("plain, with a comma", "plain, with a comma"),
        ("a\x1b[31mb\n", "a\\x1b[31mb\\n"),
        ("", ""),
    ],
)
def test_no_cell_of_an_export_is_a_formula_or_an_escape(text: str, cell: str) -> None:
    assert escaped_cell(text) == cell
