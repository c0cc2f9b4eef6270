"""Exports: rows become JSON with their types, or CSV without formulas."""

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

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


def written(capsys: pytest.CaptureFixture[str], output: Output, *rows: dict[str, Any]) -> str:
    write_rows(rows, output)
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


def test_values_of_a_database_have_a_json_form(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(["at", "dollars"], [(datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.50"))], "json")
    assert json.loads(capsys.readouterr().out) == [{"at": "2026-01-02T00:00:00+00:00", "dollars": 1.5}]
