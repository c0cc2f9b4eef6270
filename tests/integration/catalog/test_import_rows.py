"""`traingrid catalog import`, on SQLite and on a real PostgreSQL."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, select

from traingrid.catalog import import_rows
from traingrid.catalog.database import Catalog
from traingrid.catalog.import_rows import import_file
from traingrid.catalog.tables import IMPORTED, capacity, datasets
from traingrid.errors import UsageError

DATASETS = "dataset,version,campaign,bytes,attributes,created_at\n"


def all_rows(catalog: Catalog, table: Table) -> list[dict[str, Any]]:
    with catalog.read_only() as connection:
        found = connection.execute(select(table).order_by(*table.primary_key)).mappings().all()
    return [dict(row) for row in found]


def test_a_csv_file_is_imported_and_updates_what_exists(catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "datasets.csv"
    file.write_text(
        f'\ufeff{DATASETS}a,1,oslo,{2**40},"{{""sensor"": ""lidar""}}",2026-11-23T12:00:00+01:00\nb,1,oslo,,,\n'
    )
    assert import_file(catalog, "datasets", file) == 2
    file.write_text("version,dataset,format\n1,b,tfrecord\n")
    assert import_file(catalog, "datasets", file) == 1
    first, second = all_rows(catalog, datasets)
    assert first == {
        "dataset": "a",
        "version": "1",
        "campaign": "oslo",
        "bytes": 2**40,
        "objects": None,
        "format": "",
        "attributes": {"sensor": "lidar"},
        "created_at": datetime(2026, 11, 23, 11, tzinfo=UTC),
        "source": "import",
    }
    assert (second["campaign"], second["format"]) == ("oslo", "tfrecord")


def test_a_json_lines_file_is_imported(catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "capacity.jsonl"
    file.write_text(
        '{"region": "us-east-1", "instance_type": "ml.p5.48xlarge", "purchase_option": "spot", "instances": 4,'
        ' "as_of": "2026-11-01"}\n\n'
    )
    import_file(catalog, "capacity", file)
    (row,) = all_rows(catalog, capacity)
    assert (row["training_plan"], row["instances"], row["as_of"]) == ("", 4, date(2026, 11, 1))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"{DATASETS}a,1,,ten,,\n", "datasets.csv:2: bytes 'ten': must be a valid integer"),
        (f"{DATASETS}a,1,,-5,,\n", "datasets.csv:2: bytes '-5': must be greater than or equal to 0"),
        (f"{DATASETS}a,1,,{2**63},,\n", "must be less than 922337203685477"),
        (f"{DATASETS}a,1,,,[1],\n", "attributes '[1]': must be a JSON object"),
        (f"{DATASETS}a,1,,,{{,\n", "attributes '{': must be JSON (Expecting property name"),
        (f'{DATASETS}a,1,,,"{{""a"": NaN}}",\n', "must be JSON, which has no NaN"),
        (f'{DATASETS}a,1,,,"{{""a"": ""\\u0000""}}",\n', "must be JSON without NUL characters and surrogates"),
        (f'{DATASETS}a,1,,,"{{""a"": 1, ""a"": 2}}",\n', "must be JSON in which 'a' occurs once"),
        (f"{DATASETS}a,1,,{'9' * 5000},,\n", "datasets.csv:2: bytes"),
        (f"{DATASETS}a,1,,,,0001-01-01T00:00:00+14:00\n", "must be between 1970 and 9998"),
        (f"{DATASETS}a,1,,,,20261123\n", "created_at '20261123': must be in the form 2026-11-23"),
        (f"{DATASETS}a,1,,,,yesterday\n", "created_at 'yesterday': must be in the form 2026-11-23"),
        (f"{DATASETS}a,1,,,,2026-13-45\n", "created_at '2026-13-45': must be a valid datetime"),
        (f"{DATASETS}a,1,o\x1bslo,,,\n", "campaign 'o\\x1bslo': must be one line of text"),
        (f"{DATASETS}a,,,,,\n", "datasets.csv:2: version: required."),
        (f"{DATASETS}a,1,,,,\nb,1,,,,\na,1,,,,\n", "datasets.csv:4: the same row as line 2: a, 1. Remove one."),
        (f"{DATASETS}a,1,,,,,,\n", "datasets.csv:2: more cells than columns"),
        ("dataset,version,size\na,1,5\n", "size: unknown column. The columns are dataset, version, campaign,"),
        ("dataset,version,source\na,1,marker\n", "source: unknown column."),
        ("dataset,dataset\na,1\n", "datasets.csv:1: the column 'dataset' occurs twice"),
        ('dataset,version\n"a,1\n', "datasets.csv:2: not CSV"),
        ("dataset,version\n", "has no rows. Its columns are dataset, version, campaign"),
        ("", "has no rows"),
    ],
)
def test_an_invalid_file_is_refused_and_nothing_is_imported(
    shared_catalog: Catalog, tmp_path: Path, content: str, reason: str
) -> None:
    file = tmp_path / "datasets.csv"
    file.write_text(content)
    with pytest.raises(UsageError) as error:
        import_file(shared_catalog, "datasets", file)
    assert reason in str(error.value)
    assert all_rows(shared_catalog, datasets) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1, 2]", "datasets.jsonl:2: must be a JSON object"),
        ("{", "datasets.jsonl:2: must be JSON (Expecting"),
        ("[" * 100_000, "datasets.jsonl:2: must be JSON with fewer levels"),
        ('{"dataset": "b", "dataset": "c", "version": "1"}', "must be JSON in which 'dataset' occurs once"),
        (f'{{"dataset": "b", "version": "1", "bytes": {"9" * 5000}}}', "datasets.jsonl:2: must be"),
        ('{"dataset": "b", "version": {"a": 1}}', "version \"{'a': 1}\": must be a valid string"),
        ('{"dataset": "b", "version": "1", "bytes": true}', "bytes 'True': must be a number"),
        ('{"dataset": "b", "version": "1", "bytes": 1.5}', "bytes '1.5': must be a valid integer"),
    ],
)
def test_an_invalid_json_line_is_refused(shared_catalog: Catalog, tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "datasets.jsonl"
    file.write_text(f'{{"dataset": "a", "version": 1}}\n{line}\n')
    with pytest.raises(UsageError) as error:
        import_file(shared_catalog, "datasets", file)
    assert reason in str(error.value)
    assert all_rows(shared_catalog, datasets) == []


@pytest.mark.parametrize(
    ("table", "row", "reason"),
    [
        ("replicas", {"uri": "b/day1"}, "uri 'b/day1': must match pattern"),
        ("replicas", {"uri": "s3://bucket/a", "state": "availble"}, "state 'availble': must be 'available', 'copying'"),
        ("replicas", {"uri": "s3://bucket/a", "region": "useast1"}, "region 'useast1': must match pattern"),
        ("prices", {"purchase_option": "ondemand"}, "purchase_option 'ondemand': must be 'on_demand' or 'spot'"),
        ("prices", {"instance_type": "p5.48xlarge"}, "instance_type 'p5.48xlarge': must match pattern"),
    ],
)
def test_a_value_outside_of_its_columns_set_is_refused(
    shared_catalog: Catalog, tmp_path: Path, table: str, row: dict[str, str], reason: str
) -> None:
    file = tmp_path / "rows.JSONL"
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(UsageError) as error:
        import_file(shared_catalog, table, file)
    assert reason in str(error.value)


def test_only_line_feeds_end_a_json_line(catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "campaigns.jsonl"
    file.write_text('{"campaign": "a", "attributes": {"note": "x\u2028y\x85z"}}\r\n{"campaign": "b"}\r\n')
    assert import_file(catalog, "campaigns", file) == 2


def test_a_file_that_is_not_text_is_refused(shared_catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "datasets.csv"
    file.write_bytes("dataset,version\n".encode("utf-16"))
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        import_file(shared_catalog, "datasets", file)


def test_a_list_of_errors_is_limited(shared_catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "datasets.csv"
    file.write_text(DATASETS + "a,,,,,\n" * 50)
    with pytest.raises(UsageError) as error:
        import_file(shared_catalog, "datasets", file)
    assert len(error.value.what.splitlines()) == 22
    assert "... and 30 more" in error.value.what


def test_every_column_has_a_form() -> None:
    for table in IMPORTED.values():
        for column in table.columns:
            assert any(isinstance(column.type, kind) for kind, _ in import_rows._FORMS), column
