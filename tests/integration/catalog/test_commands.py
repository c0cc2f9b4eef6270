"""`traingrid catalog` and `traingrid manifest`, on every kind of database."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.sample_deployment import sample_deployment
from traingrid.catalog.batches import upsert
from traingrid.catalog.database import Catalog
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.tables import runs
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.manifest.parse import parse

GRID = """\
name: demo
home: us-east-1
regions: {us-east-1: {}}
images: {resnet: {repository: training, tag: "1"}}
job: {image: resnet, instance_type: ml.g5.xlarge}
"""
FILES = {
    "campaigns": 'campaign,hyperparameters\noslo,"{""epochs"": 3}"\nlima,\n',
    "datasets": (
        "dataset,version,campaign,created_at\n"
        "day1,1,oslo,2026-11-01\nday1,2,oslo,2026-11-05\nday2,1,oslo,2026-11-02\nday3,1,lima,2026-11-03\n"
    ),
    "replicas": (
        "dataset,version,region,uri\n"
        "day1,1,us-east-1,s3://ragab-ml/day1/1\nday1,2,us-east-1,s3://ragab-ml/day1/2\n"
        "day1,2,us-west-2,s3://ragab-ml-pdx/day1/2\nday2,1,eu-west-1,s3://ragab-ml-dub/day2\n"
        "day3,1,us-west-2,s3://ragab-ml-pdx/day3\n"
    ),
}
RUN = {
    "submission": "0a1b2c3d",
    "attempt": 1,
    "campaign": "oslo",
    "dataset": "day1",
    "version": "1",
    "region": "us-east-1",
    "state": "Completed",
    "instance_type": "ml.p3.16xlarge",
    "instances": 2,
    "hyperparameters": {"epochs": "3", "learning_rate": "0.1"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files to import."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name, content in FILES.items():
        (work / f"{name}.csv").write_text(content)
    return work


@pytest.fixture
def filled(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a catalog, which the environment names."""
    monkeypatch.setenv("TRAINGRID_CATALOG", url)
    assert run("catalog", "init").exit_code == 0
    for name in FILES:
        assert run("catalog", "import", name, f"{name}.csv").exit_code == 0, name
    return url


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, words, input=stdin)


def lines(*words: str, stdin: str | None = None) -> list[dict[str, Any]]:
    """Return the lines of a generated manifest, which the intake would accept."""
    result = run("manifest", *words, stdin=stdin)
    assert result.exit_code == 0, result.exception
    assert parse(result.output.encode(), sample_deployment())
    return [json.loads(line) for line in result.output.splitlines()[1:]]


def add_runs(url: str, rows: list[dict[str, Any]]) -> None:
    catalog = Catalog(catalog_url(url))
    catalog.write(lambda connection: upsert(connection, runs, rows))


def test_untrained_datasets_of_a_campaign(filled: str) -> None:
    query = ("--query", "untrained", "--param", "campaign=oslo")
    assert [(line["region"], line["s3_uri"]) for line in lines(*query)] == [
        ("us-east-1", "s3://ragab-ml/day1/1"),
        ("us-east-1", "s3://ragab-ml/day1/2"),
        ("eu-west-1", "s3://ragab-ml-dub/day2"),
    ]
    assert lines(*query)[0]["hyperparameters"] == {"epochs": 3}
    add_runs(filled, [{**RUN, "job": 0}, {**RUN, "job": 1, "version": "2", "state": "InProgress"}])
    add_runs(filled, [{**RUN, "job": 2, "dataset": "day2", "state": "Failed"}])
    assert [line["name"] for line in lines(*query)] == ["day2"]


def test_the_newest_dataset_of_every_region(filled: str) -> None:
    assert [(line["region"], line["s3_uri"]) for line in lines("--query", "newest")] == [
        ("eu-west-1", "s3://ragab-ml-dub/day2"),
        ("us-east-1", "s3://ragab-ml/day1/2"),
        ("us-west-2", "s3://ragab-ml-pdx/day1/2"),
    ]


def test_the_worst_runs_again(filled: str) -> None:
    rows = [{**RUN, "job": number, "top1": number / 100} for number in range(15)]
    add_runs(filled, [*rows, {**RUN, "job": 99, "top1": 0.0, "state": "Failed"}])
    found = lines("--query", "worst", "--param", "campaign=oslo", "--param", "learning_rate=0.01")
    assert len(found) == 10
    assert found[0]["hyperparameters"] == {"epochs": "3", "learning_rate": "0.01"}
    assert (found[0]["instance_type"], found[0]["instance_count"]) == ("ml.p3.16xlarge", 2)


def test_the_hyperparameters_of_campaigns(filled: str) -> None:
    found = lines("--query", "campaigns")
    assert [(line["s3_uri"], line["tags"], line.get("hyperparameters")) for line in found] == [
        ("s3://ragab-ml-pdx/day3", {"campaign": "lima"}, None),
        ("s3://ragab-ml/day1/2", {"campaign": "oslo"}, {"epochs": 3}),
        ("s3://ragab-ml-dub/day2", {"campaign": "oslo"}, {"epochs": 3}),
    ]


def test_a_query_of_a_file_or_of_standard_input(filled: str, folder: Path) -> None:
    sql = "SELECT region, uri AS s3_uri FROM replicas WHERE dataset = :name ORDER BY region"
    (folder / "q.sql").write_text(sql)
    words = ("--param", "name=day3")
    expected = [{"region": "us-west-2", "s3_uri": "s3://ragab-ml-pdx/day3"}]
    assert lines("--sql", "q.sql", *words) == expected
    assert lines("--sql", "-", *words, stdin=sql) == expected


def test_the_output_can_be_a_file(filled: str, folder: Path) -> None:
    result = run("manifest", "--query", "newest", "--csv", "--to", "m.csv")
    assert result.output == "m.csv: 3 lines\n"
    assert (folder / "m.csv").read_text().splitlines()[:2] == ["# jobs: 3", "region,s3_uri,name"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "Give one of --sql FILE and --query NAME"),
        (("--query", "newest", "--sql", "datasets.csv"), "Give one of --sql FILE and --query NAME"),
        (("--query", "none"), "no query 'none'. Its queries are campaigns, newest, untrained, worst"),
        (("--query", "untrained"), "Add --param campaign=VALUE"),
        (("--query", "untrained", "--param", "oslo"), "--param oslo is not of the form NAME=VALUE"),
        (("--query", "untrained", "--param", "campaign=a", "--param", "campaign=b"), "--param campaign is given twice"),
        (("--query", "untrained", "--param", "campaign=none"), "The query returns no rows"),
        (("--sql", "datasets.csv"), "The query cannot be run"),
    ],
)
def test_bad_input_writes_nothing(filled: str, folder: Path, words: tuple[str, ...], reason: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    result = run("manifest", *words, "--to", "m.jsonl")
    assert isinstance(result.exception, UsageError), result.output
    assert reason in str(result.exception)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_sql_prints_a_table_or_csv(filled: str) -> None:
    sql = 'SELECT campaign, created_at AS "=1+1" FROM campaigns WHERE campaign = :name'
    table = run("catalog", "sql", sql, "--param", "name=oslo").output
    assert [line.split() for line in table.splitlines()] == [["campaign", "=1+1"], ["oslo"]]
    assert run("catalog", "sql", sql, "--param", "name=oslo", "--output", "csv").output == "campaign,'=1+1\noslo,\n"


def test_the_default_is_a_file_beside_the_grid_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINGRID_CATALOG", raising=False)
    (folder / "grids").mkdir()
    assert run("--grid", "grids/grid.yaml", "catalog", "init").exit_code == 0
    assert (folder / "grids" / "catalog.db").exists()
    (folder / "grids" / "grid.yaml").write_text(GRID + "catalog: sqlite:///other.db\n")
    assert "grids/other.db" in run("--grid", "grids/grid.yaml", "catalog", "init").output
    assert (folder / "grids" / "other.db").exists()


def test_the_grid_file_names_the_catalog(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINGRID_CATALOG", raising=False)
    (folder / "grid.yaml").write_text(GRID + f"catalog: {url}\n")
    assert run("catalog", "init").exit_code == 0
    assert run("catalog", "sql", "SELECT COUNT(*) AS number FROM runs").output.split() == ["number", "0"]
    assert run("catalog", "init").output.endswith(" already has the tables of this version.\n")


def test_queries_are_listed_with_their_parameters() -> None:
    listed = run("manifest", "--queries").output
    assert "untrained   Datasets of a campaign without a completed or open run" in listed
    assert "            Parameters: campaign, learning_rate\n" in listed


def test_many_datasets_become_a_manifest(filled: str, folder: Path) -> None:
    numbers = range(1_200)  # more than one INSERT
    (folder / "d.csv").write_text("dataset,version,campaign\n" + "".join(f"d{n},1,many\n" for n in numbers))
    (folder / "r.csv").write_text(
        "dataset,version,region,uri\n" + "".join(f"d{n},1,us-east-1,s3://ragab-ml/{n}\n" for n in numbers)
    )
    for table in ("datasets", "replicas"):
        assert run("catalog", "import", table, f"{table[0]}.csv").output == f"1,200 rows imported into {table}\n"
    assert len(lines("--query", "untrained", "--param", "campaign=many")) == 1_200
