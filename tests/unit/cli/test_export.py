"""Exports: rows become JSON with their types, or CSV without formulas."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import Output, write_rows, write_table

ROW: dict[str, Any] = {
    "name": "=1+1",
    "region": "eu-west-1",
    "jobs": 3,
    "cancelled": False,
    "reason": None,
    "tried": ("us-east-1 (capacity)", "us-west-2 (capacity)"),
    "metrics": {"loss": 0.5, "top1": None},
}
SCHEMA: Schema[dict[str, Any]] = Schema(
    "job",
    Column("name", "string: A."),
    Column("region", "string: B."),
    Column("jobs", "integer: C."),
    Column("cancelled", "boolean: D."),
    Column("reason", "string: E."),
    Column("tried", "array of strings: F."),
    Column("metrics", "object of numbers: G."),
)


def written(capsys: pytest.CaptureFixture[str], output: Output, *rows: dict[str, Any]) -> str:
    write_rows(rows, SCHEMA, output)
    return capsys.readouterr().out


def test_json_keeps_types_and_has_a_row_on_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    text = written(capsys, "json", ROW, ROW)
    assert json.loads(text) == [ROW | {"tried": list(ROW["tried"])}] * 2
    assert len(text.splitlines()) == 2


def test_csv_has_a_column_for_each_metric_and_no_formula(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = csv.DictReader(io.StringIO(written(capsys, "csv", ROW)))
    assert row == {
        "name": "'=1+1",
        "region": "eu-west-1",
        "jobs": "3",
        "cancelled": "false",
        "reason": "",
        "tried": "us-east-1 (capacity), us-west-2 (capacity)",
        "metrics.loss": "0.5",
        "metrics.top1": "",
    }


def test_no_rows_are_an_empty_array_or_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, "json") == "[]\n"
    write_table(["region"], [], "csv")
    assert capsys.readouterr().out == "region\n"


def test_only_the_documented_keys_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(written(capsys, "json", {**ROW, "secret": "x"}))
    assert list(row) == SCHEMA.names


def test_json_is_complete_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield ROW
        raise OSError("the network is down")

    with pytest.raises(OSError, match="network"):
        write_rows(rows(), SCHEMA, "json")
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_objects_within_a_list_are_json_in_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = csv.DictReader(io.StringIO(written(capsys, "csv", {**ROW, "tried": [{"attempt": 1}]})))
    assert row["tried"] == '{"attempt": 1}'


def test_values_of_a_database_have_a_json_form(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(["at", "dollars"], [(datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.50"))], "json")
    assert json.loads(capsys.readouterr().out) == [{"at": "2026-01-02T00:00:00+00:00", "dollars": 1.5}]
