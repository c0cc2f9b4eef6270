"""Manifest: it is accepted as a whole or rejected with all errors, by line and field."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sample_deployment import REGIONS, SAMPLE, SAMPLE_BUCKETS, sample_deployment
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest.errors import LineError, ManifestError
from traingrid.manifest.parse import MAX_BYTES, Line, parse

DEPLOYMENT = sample_deployment()


def with_grid(**changes: Any) -> Deployment:
    grid = DEPLOYMENT.grid.model_dump(mode="json", exclude_defaults=True) | changes
    return replace(DEPLOYMENT, grid=GridSettings.model_validate(grid))


def errors_of(content: bytes) -> list[LineError]:
    with pytest.raises(ManifestError) as caught:
        parse(content, DEPLOYMENT)
    return caught.value.errors


def only_error(content: bytes) -> LineError:
    (error,) = errors_of(content)
    return error


def test_the_plainest_form_works_verbatim() -> None:
    lines = parse(SAMPLE.encode(), DEPLOYMENT)
    assert [line.region for line in lines] == list(REGIONS)
    assert [line.data and line.data.bucket for line in lines] == list(SAMPLE_BUCKETS.values())
    assert {line.data and line.data.key for line in lines} == {"imagenet2012/tf-imagenet/resized"}


def test_a_job_is_named_by_its_third_field_or_by_its_data() -> None:
    lines = parse(b"us-east-1,s3://ragab-ml/a/monday\nus-east-1,s3://ragab-ml/a/monday,second try\n", DEPLOYMENT)
    assert [line.name for line in lines] == ["monday", "second try"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + SAMPLE.encode(),
        SAMPLE.replace("\n", "\r\n").encode(),
        SAMPLE.replace("\n", "\r").encode(),
        SAMPLE.rstrip("\n").encode(),
        ("\n\n# a remark\n   \n" + SAMPLE + "\n\n").encode(),
        SAMPLE.replace(",", " , ").encode(),
        SAMPLE.replace("us-west-2", '"us-west-2"').encode(),
    ],
    ids=["byte-order mark", "CRLF", "CR", "no end of line", "blank lines and remarks", "blanks", "quotes"],
)
def test_artifacts_of_spreadsheets_and_editors_change_nothing(content: bytes) -> None:
    plain = [(line.region, line.data) for line in parse(SAMPLE.encode(), DEPLOYMENT)]
    assert [(line.region, line.data) for line in parse(content, DEPLOYMENT)] == plain


def test_line_numbers_match_those_of_an_editor() -> None:
    error = only_error(b"# remark\r\n\r\nus-east-1,s3://ragab-ml/x\r\nus-east-9,s3://ragab-ml/x\r\n")
    assert (error.line, error.field) == (4, "region")


def test_an_unknown_region_is_named_with_the_nearest_one() -> None:
    error = only_error(b"us-wst-2,s3://ragab-ml-pdx/x")
    assert error.value == "'us-wst-2'"
    assert "Did you mean us-west-2?" in error.next_step


def test_a_bucket_of_another_region_is_named_with_its_region() -> None:
    error = only_error(b"us-east-1,s3://ragab-ml-fra/x")
    assert error.field == "s3_uri"
    assert "is in eu-central-1" in error.reason


def test_a_bucket_that_the_grid_does_not_know_is_refused() -> None:
    error = only_error(b"us-east-1,s3://somebody-elses/x")
    assert "this grid may not read" in error.reason
    assert "data_buckets of us-east-1" in error.next_step


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("http://ragab-ml/x", "must start with s3://"),
        ("ragab-ml/x", "must start with s3://"),
        ("s3:/ragab-ml/x", "must start with s3://"),
        ("s3://Ragab_ML/x", "the bucket name after s3:// is invalid"),
        ("s3:///x", "the bucket name after s3:// is invalid"),
        ("s3://10.0.0.1/x", "the bucket name after s3:// is invalid"),
        ("s3://ragab-ml/a//b", "empty, '.' or '..' part"),
        ("s3://ragab-ml/a/../b", "empty, '.' or '..' part"),
        ("s3://ragab-ml/a\x07b", "control character"),
        ("s3://ragab-ml/" + "x" * 1025, "at most 1024 bytes"),
        ("", "must start with s3://"),
    ],
)
def test_a_malformed_uri_names_the_violated_rule(uri: str, reason: str) -> None:
    error = only_error(f"us-east-1,{uri}".encode())
    assert (error.field, error.line) == ("s3_uri", 1)
    assert reason in error.reason


@pytest.mark.parametrize("line", ["us-east-1", "us-east-1,s3://ragab-ml/x,name,more", ",,x"])
def test_too_few_or_too_many_fields_are_refused(line: str) -> None:
    assert errors_of(line.encode())[0].line == 1


def test_a_header_is_distinguished_from_a_job() -> None:
    (line,) = parse(b"region,s3_uri\nus-east-1,s3://ragab-ml/x\n", DEPLOYMENT)
    assert (line.number, line.region) == (2, "us-east-1")


def test_all_errors_are_reported_in_the_order_of_the_file() -> None:
    found = errors_of(b"mars,s3://ragab-ml/x\nus-east-1,s3://ragab-ml/ok\nus-east-1\nmoon,ftp://x\n")
    assert [(error.line, error.field) for error in found] == [
        (1, "region"),
        (3, "line"),
        (4, "region"),
        (4, "s3_uri"),
    ]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# nothing but a remark\n", b"\xef\xbb\xbf"])
def test_a_file_without_a_job_is_refused(content: bytes) -> None:
    error = only_error(content)
    assert (error.line, error.field) == (0, "file")
    assert "no job" in error.reason


def test_two_megabytes_of_garbage_give_a_readable_report() -> None:
    garbage = bytes(range(256)) * 8192
    error = only_error(garbage)
    assert "not UTF-8" in error.reason
    letters = only_error(b"x" * 2 * 1024 * 1024)
    assert "at most 524,288 bytes" in letters.reason
    assert len(str(letters)) < 500


def test_garbage_of_many_lines_is_counted_and_its_report_is_capped() -> None:
    with pytest.raises(ManifestError) as caught:
        parse(b"garbage\n" * 10_000, DEPLOYMENT)
    assert caught.value.total == 10_000
    assert len(caught.value.errors) == 1_000


def test_a_file_with_too_many_lines_is_refused_at_the_limit() -> None:
    def lines() -> Iterator[bytes]:
        yield from [b"us-east-1,garbage\n"] * 4
        raise AssertionError("no line is read beyond the limit")

    deployment = with_grid(limits={"jobs": 3})
    with pytest.raises(ManifestError) as caught:
        parse(lines(), deployment)
    assert [error.line for error in caught.value.errors] == [0, 1, 2, 3], "the lines' own errors are reported as well"
    error = caught.value.errors[0]
    assert error.field == "file"
    assert "at most 3 jobs" in error.reason


def test_a_byte_that_is_not_utf8_is_found_by_line() -> None:
    error = only_error(SAMPLE.encode() + b"us-east-1,s3://ragab-ml/caf\xe9\n")
    assert (error.line, error.value[:2]) == (5, "e9")


def test_utf16_is_recognised() -> None:
    assert "UTF-16" in only_error(SAMPLE.encode("utf-16")).reason


def test_control_characters_never_reach_a_report_raw() -> None:
    for error in errors_of(b"us-east-1\x1b[31m,s3://ragab-ml/x\x00,na\x07me\n"):
        assert str(error).isprintable()


def test_the_largest_report_fits_into_lambdas_response() -> None:
    line = "mars,s3://" + "\x01" * 4_000 + "/x," + "\U000e0001" * 200 + "\n"
    with pytest.raises(ManifestError) as caught:
        parse((line * 1_000).encode(), DEPLOYMENT)
    assert len(json.dumps(caught.value.as_dicts())) < 6_000_000


def test_more_jobs_than_an_array_holds_are_accepted() -> None:
    assert len(parse(b"us-east-1,s3://ragab-ml/x\n" * 10_001, DEPLOYMENT)) == 10_001


def test_a_file_beyond_the_limit_is_refused_without_storing_it() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 1024 * 1024

    with pytest.raises(ManifestError, match=f"at most {MAX_BYTES:,}"):
        parse(endless(), DEPLOYMENT)


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_a_file_may_come_in_pieces_of_any_size(size: int) -> None:
    content = ("\ufeff" + SAMPLE.replace("\n", "\r\n")).encode()
    pieces = [content[:5], *(content[start : start + size] for start in range(5, len(content), size))]
    assert parse(pieces, DEPLOYMENT) == parse(content, DEPLOYMENT)


def test_a_declared_number_of_jobs_detects_a_truncated_file() -> None:
    whole = ("# jobs: 4\n" + SAMPLE).encode()
    assert len(parse(whole, DEPLOYMENT)) == 4
    for cut in range(len("# jobs: 4\n"), len(whole)):
        assert errors_of(whole[:cut])


@given(st.binary(max_size=300) | st.text(alphabet="us-eat1,3:/ragbml.\"'#\n\r\t\0é", max_size=200).map(str.encode))
def test_any_bytes_are_accepted_or_rejected_with_a_line(content: bytes) -> None:
    errors: list[LineError] = []
    lines: list[Line] = []
    try:
        lines = parse(content, DEPLOYMENT)
    except ManifestError as error:
        errors = error.errors
    assert bool(lines) != bool(errors)
    assert all(line.region in REGIONS for line in lines)
    assert all(error.reason and error.next_step and str(error).isprintable() for error in errors)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"source": "s3://traingrid-data-123456789012-us-east-1/x.tar.gz", "entry_pont": "train.py"}, "entry_pont"),
        ({"spto": True, "max_wait": "24h"}, "spto"),
        ({"s3_uri": None, "s3_url": "s3://campaigns-iad/x"}, "s3_url"),
        ({"region": None, "regoin": "us-east-1"}, "regoin"),
    ],
)
def test_a_misspelled_field_is_the_only_error_of_its_line(line: dict[str, Any], field: str) -> None:
    """Errors that follow from the missing field would send the user to a correct one."""
    values = {"region": "us-east-1", "s3_uri": f"s3://{SAMPLE_BUCKETS['us-east-1']}/x"} | line
    text = json.dumps({name: value for name, value in values.items() if value is not None})
    assert only_error(f"{text}\n".encode()).value == repr(field)


def test_a_misspelled_column_is_the_only_error_of_a_table() -> None:
    bucket = SAMPLE_BUCKETS["us-east-1"]
    row = f"us-east-1,s3://{bucket}/x,s3://traingrid-data-123456789012-us-east-1/x.tar.gz,train.py\n"
    assert only_error(f"region,s3_uri,source,entry_pont\n{row * 2}".encode()).value == "'entry_pont'"


@pytest.mark.parametrize("start", ["", "x,s3://y/z\n", "region,s3_uri\n"])
@pytest.mark.parametrize("row", ["us-east-1 s3://x/y", "us-east-1   s3://x/y"])
def test_a_blank_in_place_of_a_comma_is_named(start: str, row: str) -> None:
    error = errors_of(f"{start}{row}\n".encode())[-1]
    number = 1 + start.count("\n")
    reason = "the comma between the Region and the folder is missing. Write region,s3_uri or region,s3_uri,name."
    assert str(error) == f"line {number} '{row}': {reason}"


def test_a_long_value_ends_with_an_ellipsis_that_is_no_escape() -> None:
    error = errors_of(b"x" * 200 + b"\n")[0]
    assert error.value == f"'{'x' * 119}…'"
