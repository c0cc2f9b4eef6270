"""`traingrid plan`, on SQLite and on a real PostgreSQL: choices, verdicts, shortages, and the plan file."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.sample_deployment import sample_deployment
from traingrid.catalog.database import Catalog, upsert
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.tables import runs
from traingrid.cli import plan as command
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.recipe import recipe_of
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

TODAY = datetime.now(UTC).date().isoformat()
OLD = (datetime.now(UTC).date() - timedelta(days=45)).isoformat()
GB = 2**30
P3 = "ml.p3.16xlarge"
PRICES = {("us-east-1", "on_demand"): 28.0, ("eu-west-1", "on_demand"): 30.0, ("eu-central-1", "on_demand"): 20.0}
FILES = {
    "datasets": f"dataset,version,bytes\nday1,1,{512 * GB}\nday2,1,{GB}\nday3,1,{64 * GB}\n",
    "replicas": (
        "dataset,version,region,uri\nday1,1,us-east-1,s3://ragab-ml/day1\nday2,1,us-east-1,s3://ragab-ml/day2\n"
        "day3,1,eu-west-1,s3://ragab-ml-dub/day3\nday3,1,us-east-1,s3://ragab-ml/day3\n"
    ),
    "prices": "region,instance_type,purchase_option,dollars_per_hour,as_of,source\n"
    + "".join(f"{region},{P3},{option},{dollars},{TODAY},test\n" for (region, option), dollars in PRICES.items())
    + f"us-east-1,{P3},spot,9,{OLD},test\n",
    "transfer_prices": f"from_region,to_region,dollars_per_gb,as_of\nus-east-1,eu-central-1,0.02,{TODAY}\n",
    "capacity": "region,instance_type,purchase_option,instances,as_of\n"
    + "".join(f"{region},{P3},{option},4,{TODAY}\n" for region, option in PRICES)
    + f"us-east-1,{P3},spot,4,{TODAY}\n",
}
DAY1 = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/day1", "estimated_runtime": "1h"}
DAY2 = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/day2", "estimated_runtime": "1h"}
DAY3 = {"region": "eu-west-1", "s3_uri": "s3://ragab-ml-dub/day3", "estimated_runtime": "1h"}


@pytest.fixture
def deployment() -> Deployment:
    return sample_deployment()


@pytest.fixture
def folder(tmp_path: Path, url: str, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a filled catalog that the environment names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINGRID_CATALOG", url)
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment)
    assert run("catalog", "init").exit_code == 0
    for name, content in FILES.items():
        imported(tmp_path, name, content)
    return tmp_path


def imported(folder: Path, name: str, content: str) -> None:
    (folder / f"{name}.csv").write_text(content)
    result = run("catalog", "import", name, f"{name}.csv")
    assert result.exit_code == 0, result.exception


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def planned(folder: Path, *lines: dict[str, Any], options: tuple[str, ...] = ()) -> str:
    """Return the output of a plan, whose file is plan.jsonl."""
    (folder / "m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run("plan", "m.jsonl", "--output", "plan.jsonl", *options)
    assert result.exit_code == 0, result.exception
    return result.output


def jobs(folder: Path) -> list[dict[str, Any]]:
    """Return the jobs in the plan file."""
    lines = [json.loads(line) for line in (folder / "plan.jsonl").read_text().splitlines()]
    return [line for line in lines if "job" in line]


def refused(*words: str) -> UsageError:
    result = run(*words)
    assert isinstance(result.exception, UsageError), result.output
    return result.exception


def test_a_small_dataset_moves_and_a_large_one_stays(folder: Path) -> None:
    output = planned(folder, DAY1, DAY2)
    stays, moves = jobs(folder)
    assert (stays["job"]["region"], stays["move"]) == ("us-east-1", "")
    assert stays["verdict"].startswith("stays: moving 512 GB to eu-central-1 costs $12.")
    assert stays["verdict"].endswith("and saves $8.00")
    assert (moves["job"]["region"], moves["move"]) == ("eu-central-1", "us-east-1")
    assert moves["verdict"].endswith("and saves $8.00")
    assert "1 move of data" in output
    assert "another plan could save at most 0.00 % of the cost" in output


def test_without_moves_a_line_trains_at_the_cheapest_replica(folder: Path) -> None:
    planned(folder, DAY2, DAY3, options=("--no-moves",))
    own, other = jobs(folder)
    assert (own["job"]["region"], own["verdict"]) == ("us-east-1", "stays: moves are off")
    assert (other["job"]["region"], other["job"]["s3_uri"]) == ("us-east-1", "s3://ragab-ml/day3")
    assert other["verdict"] == "trains at the replica in us-east-1: saves $2.00"


def test_residency_keeps_a_line_on_its_continent(folder: Path) -> None:
    planned(folder, DAY3, DAY3 | {"residency": ["eu"]}, options=("--no-moves",))
    free, resident = jobs(folder)
    assert (free["job"]["region"], resident["job"]["region"]) == ("us-east-1", "eu-west-1")


def test_the_planned_lines_are_a_valid_manifest(folder: Path, deployment: Deployment) -> None:
    planned(folder, DAY1, DAY3, options=("--no-moves", "--budget", "100", "--finish-by", "2099-01-01"))
    text = "".join(json.dumps(line["job"]) + "\n" for line in jobs(folder))
    first, second = jobs_of_lines(parse(text.encode(), deployment), deployment, "0" * 8)
    assert (first.estimated_dollars, first.budget_dollars, first.finish_by) == (28.0, 100.0, "2099-01-01T00:00:00Z")
    assert (second.estimated_dollars, second.region) == (28.0, "us-east-1")


def test_spot_is_used_if_a_line_allows_it_and_its_deadline_leaves_time(folder: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=90)).strftime("%Y-%m-%dT%H:%M:%SZ")
    spot = DAY1 | {"spot": True}
    output = planned(folder, spot, spot | {"finish_by": soon}, DAY1)
    assert [line["job"].get("spot") for line in jobs(folder)] == [True, False, None]
    prices = [(line["job"]["dollars_per_hour"], line["job"].get("spot_dollars_per_hour")) for line in jobs(folder)]
    assert prices == [(28.0, 9.0), (28.0, None), (28.0, None)]
    assert f"old price: {P3} (spot) in us-east-1 is of {OLD}, 45 days ago" in output


def test_the_duration_of_past_runs_scales_with_the_data(folder: Path, url: str, deployment: Deployment) -> None:
    (job,) = jobs_of_lines(parse(json.dumps(DAY1).encode(), deployment), deployment, "0" * 8)
    row = {"submission": "0a1b2c3d", "job": 0, "attempt": 1, "state": "Completed", "instance_type": P3}
    row |= {"recipe": recipe_of(job), "dataset": "day1", "version": "1", "seconds": 512 * 60}
    Catalog(catalog_url(url)).write(lambda connection: upsert(connection, runs, [row]))
    planned(folder, DAY3, options=("--no-moves",))
    (line,) = jobs(folder)
    assert (line["hours"], line["duration"]) == (pytest.approx(64 / 60, abs=1e-3), "past runs")


def test_a_duration_without_a_source_is_labelled_as_a_guess(folder: Path) -> None:
    output = planned(folder, {"region": "us-east-1", "s3_uri": "s3://ragab-ml/day1"})
    assert jobs(folder)[0]["duration"] == "a guess"
    assert "1 duration of 1: a guess, the max_runtime of grid.yaml" in output


def test_a_line_that_needs_more_instances_than_a_quota_is_named_with_the_command(folder: Path) -> None:
    output = planned(folder, DAY1, DAY2 | {"instance_count": 5}, options=("--no-moves",))
    assert "line 2 could not be placed: it needs 5 instances of ml.p3.16xlarge (on demand) in us-east-1" in output
    assert "--desired-value 5" in output
    assert "QuotaName=='ml.p3.16xlarge for training job usage'" in output
    assert len(jobs(folder)) == 1


def test_a_line_beyond_the_hours_of_a_quota_asks_for_more_instances(folder: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=70)).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = [DAY1 | {"finish_by": soon, "estimated_runtime": "1h"}] * 6
    output = planned(folder, *lines, options=("--no-moves",))
    assert "the 4 instances of ml.p3.16xlarge (on demand) in us-east-1 are in use until its deadline" in output
    assert "--desired-value 6" in output


def test_lines_beyond_the_budget_are_named(folder: Path) -> None:
    output = planned(folder, DAY1, DAY1, options=("--no-moves", "--budget", "30"))
    assert "it costs $28.00, and $2.00 of the budget are left" in output
    assert "Plan with --budget 56 or more." in output


def test_a_line_that_needs_too_many_accelerators_is_named(folder: Path) -> None:
    output = planned(folder, DAY1, DAY2 | {"instance_count": 2}, options=("--no-moves", "--accelerators", "8"))
    assert "line 2 could not be placed: it needs 16 accelerators, and at most 8 may be in use" in output


def test_a_deadline_that_no_choice_keeps_is_named(folder: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    output = planned(folder, DAY1, DAY2 | {"finish_by": soon})
    assert "line 2 could not be placed: it needs 1.0 hours" in output


def test_missing_prices_are_one_sentence(folder: Path, url: str) -> None:
    with Catalog(catalog_url(url)).engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM prices")
    (folder / "m.jsonl").write_text(json.dumps(DAY1))
    error = refused("plan", "m.jsonl", "--no-moves")
    assert error.what == "Line 1: the catalog has no price of ml.p3.16xlarge (on_demand) in us-east-1."
    assert "traingrid prices refresh" in error.next_step


def test_zero_capacity_everywhere_is_one_sentence(folder: Path, url: str) -> None:
    with Catalog(catalog_url(url)).engine.begin() as connection:
        connection.exec_driver_sql("UPDATE capacity SET instances = 0")
    (folder / "m.jsonl").write_text(json.dumps(DAY1))
    assert "No Region has capacity for ml.p3.16xlarge" in refused("plan", "m.jsonl").what


def test_a_contradiction_of_residency_and_region_is_an_error_of_the_line(folder: Path) -> None:
    (folder / "m.jsonl").write_text(json.dumps(DAY1 | {"residency": ["eu"]}))
    result = run("plan", "m.jsonl")
    assert "the data may only be in eu, but the line names us-east-1" in str(result.exception)


def test_a_query_can_be_planned(folder: Path) -> None:
    (folder / "all.sql").write_text(
        "SELECT region, uri AS s3_uri, dataset AS name, '1h' AS estimated_runtime FROM replicas"
        " ORDER BY dataset, region"
    )
    result = run("plan", "--sql", "all.sql", "--no-moves")
    assert result.exit_code == 0, result.exception
    assert "4 jobs" in result.output


@pytest.mark.parametrize("words", [(), ("m.jsonl", "--query", "newest"), ("--apply", "m.jsonl", "--query", "newest")])
def test_exactly_one_source_of_lines_is_required(folder: Path, words: tuple[str, ...]) -> None:
    (folder / "m.jsonl").write_text(json.dumps(DAY1))
    assert "Give one of MANIFEST" in refused("plan", *words).what


class TestApply:
    """Applying a plan file."""

    @pytest.fixture(autouse=True)
    def submitted(self, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
        """The contents that were submitted; the upload itself is that of `traingrid submit`."""
        contents: list[bytes] = []
        monkeypatch.setattr(command, "submit_content", lambda _name, content, _deployment: contents.append(content))
        return contents

    def test_exactly_the_planned_jobs_are_submitted(self, folder: Path, submitted: list[bytes]) -> None:
        planned(folder, DAY1, DAY3, options=("--no-moves",))
        assert run("plan", "--apply", "plan.jsonl").exit_code == 0
        (content,) = submitted
        declared, *lines = content.decode().splitlines()
        assert declared == "# jobs: 2"
        assert [json.loads(line) for line in lines] == [line["job"] for line in jobs(folder)]

    def test_the_same_plan_has_the_same_bytes(self, folder: Path) -> None:
        options = ("--no-moves", "--finish-by", "2099-01-01")
        planned(folder, DAY1, DAY3, options=options)
        first = (folder / "plan.jsonl").read_text().splitlines()
        planned(folder, DAY1, DAY3, options=options)
        second = (folder / "plan.jsonl").read_text().splitlines()
        assert first[1:-1] == second[1:-1]
        headers = [json.loads(lines[0]) | {"planned_at": ""} for lines in (first, second)]
        assert headers[0] == headers[1]

    def test_an_edited_plan_is_refused(self, folder: Path, submitted: list[bytes]) -> None:
        planned(folder, DAY1, options=("--no-moves",))
        file = folder / "plan.jsonl"
        file.write_text(file.read_text().replace('"estimated_runtime": "1h"', '"estimated_runtime": "2h"'))
        assert "was edited after it was planned" in refused("plan", "--apply", "plan.jsonl").what
        assert submitted == []

    @pytest.mark.parametrize("content", ["", "{}\n", "not a plan\n", '{"sha256": 1}\n', '["sha256"]\n'])
    def test_a_file_that_is_no_plan_is_refused(self, folder: Path, content: str) -> None:
        (folder / "plan.jsonl").write_text(content)
        assert "plan" in refused("plan", "--apply", "plan.jsonl").what

    def test_a_truncated_plan_is_refused(self, folder: Path) -> None:
        planned(folder, DAY1, DAY2, options=("--no-moves",))
        file = folder / "plan.jsonl"
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
        assert "is not a complete plan" in refused("plan", "--apply", "plan.jsonl").what

    def test_a_plan_with_moves_is_refused(self, folder: Path, submitted: list[bytes]) -> None:
        planned(folder, DAY1, DAY2)
        error = refused("plan", "--apply", "plan.jsonl")
        assert (
            "moves the data of 1 line, which traingrid cannot do yet: line 2 needs a copy in eu-central-1" in error.what
        )
        assert "--no-moves" in error.next_step
        assert submitted == []

    @pytest.mark.parametrize(
        ("table", "content", "reason"),
        [
            (
                "prices",
                f"region,instance_type,purchase_option,dollars_per_hour,as_of\nus-east-1,{P3},on_demand,29,{TODAY}\n",
                "the price of ml.p3.16xlarge (on demand) in us-east-1 was $28 and is $29",
            ),
            (
                "capacity",
                f"region,instance_type,purchase_option,instances,as_of\nus-east-1,{P3},on_demand,1,{TODAY}\n",
                "the quota of ml.p3.16xlarge (on demand) in us-east-1 was 4 and is 1",
            ),
            (
                "replicas",
                "dataset,version,region,uri,state\nday1,1,us-east-1,s3://ragab-ml/day1,missing\n",
                "day1 version 1 in us-east-1 is not available any more",
            ),
            ("datasets", "dataset,version,bytes\nday1,1,7\n", "bytes and has 7 bytes"),
        ],
    )
    def test_a_changed_fact_is_refused(
        self, *, folder: Path, submitted: list[bytes], table: str, content: str, reason: str
    ) -> None:
        planned(folder, DAY1, options=("--no-moves",))
        imported(folder, table, content)
        error = refused("plan", "--apply", "plan.jsonl")
        assert reason in error.what
        assert submitted == []

    def test_a_price_within_the_tolerance_is_accepted(self, folder: Path, submitted: list[bytes]) -> None:
        planned(folder, DAY1, options=("--no-moves",))
        head = "region,instance_type,purchase_option,dollars_per_hour,as_of\n"
        imported(folder, "prices", f"{head}us-east-1,{P3},on_demand,28.2,{TODAY}\n")
        assert run("plan", "--apply", "plan.jsonl").exit_code == 0
        assert len(submitted) == 1
