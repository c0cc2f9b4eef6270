"""`traingrid plan`, on SQLite and on a real PostgreSQL: choices, verdicts, shortages, and the plan file."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.sample_deployment import ACCOUNT, sample_deployment
from traingrid.catalog.batches import upsert
from traingrid.catalog.database import Catalog
from traingrid.catalog.engines import catalog_url
from traingrid.catalog.tables import runs
from traingrid.cli import plan as command
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.recipe import recipe_of
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

TODAY = datetime.now(UTC).date().isoformat()
OLD = (datetime.now(UTC).date() - timedelta(days=45)).isoformat()
GB = 2**30
P3, P4 = "ml.p3.16xlarge", "ml.p4d.24xlarge"
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
    return deployment_with(moves=True)


def deployment_with(*, moves: bool) -> Deployment:
    sample = sample_deployment()
    return replace(sample, grid=sample.grid.model_copy(update={"moves": moves}))


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
    result = run("plan", "m.jsonl", "--to", "plan.jsonl", *options)
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
    target = f"s3://traingrid-data-{ACCOUNT}-eu-central-1/copies/day2/1"
    assert (moves["job"]["s3_uri"], moves["job"]["copy_from"]) == (target, "s3://ragab-ml/day2")
    assert moves["job"]["name"] == "day2"
    assert "1 move of data" in output
    assert "another plan could save at most 0.00 % of the cost" in output


def test_without_moves_a_line_trains_at_the_cheapest_replica(folder: Path) -> None:
    planned(folder, DAY2, DAY3, options=("--no-moves",))
    own, other = jobs(folder)
    assert (own["job"]["region"], own["verdict"]) == ("us-east-1", "stays: moves are off")
    assert (other["job"]["region"], other["job"]["s3_uri"]) == ("us-east-1", "s3://ragab-ml/day3")
    assert other["verdict"] == "trains at the replica in us-east-1: saves $2.00"


def test_a_grid_without_moves_keeps_the_data_and_prints_their_savings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment_with(moves=False))
    output = planned(folder, DAY1, DAY2)
    assert [line["verdict"] for line in jobs(folder)] == ["stays: grid.yaml does not set moves"] * 2
    assert "With `moves: true` in grid.yaml, 1 move of data would save $7.9" in output
    assert "would save" not in planned(folder, DAY1, DAY2, options=("--no-moves",))


def test_lines_and_plans_share_the_copy_of_a_dataset(folder: Path) -> None:
    copies = {job["s3_uri"] for job in moved(folder, DAY2, DAY2 | {"hyperparameters": {"epochs": "3"}})}
    (folder / "replicas.csv").unlink()
    imported(folder, "replicas", "dataset,version,region,uri\nday2,1,us-west-2,s3://ragab-ml-pdx/other/day2\n")
    price = f"from_region,to_region,dollars_per_gb,as_of\nus-west-2,eu-central-1,0.01,{TODAY}\n"
    imported(folder, "transfer_prices", price)
    (job,) = moved(folder, DAY2)
    assert job["copy_from"] == "s3://ragab-ml-pdx/other/day2"
    assert copies == {job["s3_uri"]}


def test_a_shared_copy_counts_for_each_line_and_the_report_states_that(folder: Path) -> None:
    output = planned(folder, DAY2, DAY2)
    first, second = (line["job"]["estimated_dollars"] for line in jobs(folder))
    assert first == second > 20.02
    assert (
        f"2 jobs, ${2 * first:.2f}; 2 moves of data for $0.05, which counts a shared copy for each of its lin" in output
    )
    assert f"(each copy once: $0.03, ${first + 20:.2f} in total)" in output
    assert "shared copy" not in planned(folder, DAY2)


def moved(folder: Path, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lines that a plan moves; it moves all of them."""
    planned(folder, *lines)
    found = jobs(folder)
    assert all(line["move"] for line in found)
    return [line["job"] for line in found]


def test_a_replica_in_a_bucket_outside_of_the_grid_is_not_copied(folder: Path) -> None:
    imported(folder, "replicas", "dataset,version,region,uri\nday2,1,eu-west-1,s3://unknown/day2\n")
    price = f"from_region,to_region,dollars_per_gb,as_of\neu-west-1,eu-central-1,0.001,{TODAY}\n"
    imported(folder, "transfer_prices", price)
    (job,) = moved(folder, DAY2)
    assert job["copy_from"] == "s3://ragab-ml/day2"


def test_a_line_with_replicas_or_a_copy_does_not_move(folder: Path) -> None:
    own = {"region": "eu-west-1", "s3_uri": f"s3://traingrid-data-{ACCOUNT}-eu-west-1/x", "estimated_runtime": "1h"}
    planned(
        folder, DAY2 | {"replicas": {"eu-west-1": "s3://ragab-ml-dub/day2"}}, own | {"copy_from": "s3://ragab-ml/x"}
    )
    first, second = jobs(folder)
    assert (first["move"], first["job"]["region"]) == ("", "us-east-1")
    assert second["verdict"] == "stays: its copy_from is for its Region"


def test_a_line_on_a_file_system_stays_and_is_planned_unchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = deployment_with(moves=True)
    described = made.grid.model_dump(exclude_defaults=True)
    described["regions"]["eu-west-1"] |= {
        "subnets": ["subnet-0123456789abcdef0"],
        "security_groups": ["sg-0123456789abcdef0"],
        "file_systems": {"fs-0123456789abcdef0": "EFS"},
    }
    mounting = replace(made, grid=GridSettings.model_validate(described))
    monkeypatch.setattr(command, "find_deployment", lambda _grid: mounting)
    inputs = {"train": {"file_system": "fs-0123456789abcdef0", "type": "EFS", "path": "/day2"}}
    planned(folder, {"region": "eu-west-1", "inputs": inputs, "estimated_runtime": "1h"})
    (line,) = jobs(folder)
    assert (line["verdict"], line["move"]) == ("stays: its data is on a file system of its Region", "")
    assert (line["job"]["region"], line["job"]["inputs"]) == ("eu-west-1", inputs)
    (job,) = parse(json.dumps(line["job"]).encode(), mounting)
    assert job.inputs["train"].path == "/day2"


def test_residency_keeps_a_line_on_its_continent(folder: Path) -> None:
    planned(folder, DAY3, DAY3 | {"residency": ["eu"]}, options=("--no-moves",))
    free, resident = jobs(folder)
    assert (free["job"]["region"], resident["job"]["region"]) == ("us-east-1", "eu-west-1")


def staying_in(area: str) -> Deployment:
    """Return the deployment of a grid with `moves`, in which the data of a geography must stay there."""
    made = deployment_with(moves=True)
    described = made.grid.model_dump(exclude_defaults=True)
    for region, settings in described["regions"].items():
        settings["residency"] = [area] if region.startswith(area) else []
    return replace(made, grid=GridSettings.model_validate(described))


def test_the_residency_of_a_region_keeps_its_data_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (DAY2 | {"residency": ["eu", "us"]}, DAY3)
    planned(folder, *lines)
    assert [line["job"]["region"] for line in jobs(folder)] == ["eu-central-1", "eu-central-1"]
    monkeypatch.setattr(command, "find_deployment", lambda _grid: staying_in("us"))
    planned(folder, *lines)
    copied, replica = jobs(folder)
    assert (copied["job"]["region"], copied["verdict"]) == ("us-east-1", "stays: no other Region is possible")
    assert (replica["job"]["region"], replica["move"]) == ("us-east-1", ""), "it is not copied from us-east-1"
    monkeypatch.setattr(command, "find_deployment", lambda _grid: staying_in("eu"))
    planned(folder, *lines, options=("--no-moves",))
    assert [line["job"]["region"] for line in jobs(folder)] == ["us-east-1", "eu-west-1"]


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
    assert {line["job"]["estimated_runtime"] for line in jobs(folder)} == {"1h"}
    prices = [(line["job"]["dollars_per_hour"], line["job"].get("spot_dollars_per_hour")) for line in jobs(folder)]
    assert prices == [(28.0, 9.0), (28.0, None), (28.0, None)]
    first = jobs(folder)[0]
    assert first["job"]["estimated_dollars"] == pytest.approx(0.98 * 9 + 0.02 * 28)
    assert first["verdict"].endswith("; its price expects spot instances for 98 % of the training")
    assert f"old price: {P3} (spot) in us-east-1 is of {OLD}, 45 days ago" in output


def test_a_planned_spot_job_has_no_limit_of_waiting_because_its_child_watches_the_deadline(folder: Path) -> None:
    """A limit of waiting and running together would end a training that has waited."""
    soon = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    planned(folder, DAY1 | {"spot": True, "finish_by": soon}, DAY1 | {"spot": True, "max_runtime": "2h"})
    assert [("max_wait" in line["job"], line["job"]["spot"]) for line in jobs(folder)] == [(False, True)] * 2


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


PLAN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-plan/november"
ON_PLAN = DAY1 | {"training_plan": PLAN}


class TestTrainingPlans:
    """Lines that name a SageMaker training plan."""

    @pytest.fixture
    def deployment(self) -> Deployment:
        sample = deployment_with(moves=True)
        east = sample.grid.regions["us-east-1"].model_copy(update={"training_plans": ("november",)})
        regions = {**sample.grid.regions, "us-east-1": east}
        return replace(sample, grid=sample.grid.model_copy(update={"regions": regions}))

    def test_its_hours_are_paid_and_do_not_use_the_quota(self, folder: Path, deployment: Deployment) -> None:
        reserved(folder, instances=1, hours=5)
        soon = {"finish_by": after(hours=1.2)}
        output = planned(folder, ON_PLAN | soon, *[DAY1 | soon] * 4, options=("--no-moves",))
        on_plan, *others = jobs(folder)
        assert on_plan["verdict"] == "trains on the training plan november: its hours are already paid"
        assert [line["job"]["estimated_dollars"] for line in (on_plan, *others)] == [0.0, 28.0, 28.0, 28.0, 28.0]
        assert "1 x ml.p3.16xlarge, training plan november" in output
        text = "".join(json.dumps(line["job"]) + "\n" for line in (on_plan, *others))
        first, second, *_ = jobs_of_lines(parse(text.encode(), deployment), deployment, "0" * 8)
        assert (first.training_plan, first.estimated_dollars, second.training_plan) == (PLAN, 0.0, "")

    def test_a_line_stays_in_the_region_of_its_plan(self, folder: Path) -> None:
        reserved(folder, instances=1, hours=5)
        planned(folder, DAY2 | {"training_plan": PLAN}, DAY2)
        assert [line["job"]["region"] for line in jobs(folder)] == ["us-east-1", "eu-central-1"]

    def test_a_line_with_replicas_trains_where_its_plan_is(self, folder: Path) -> None:
        reserved(folder, instances=1, hours=5)
        planned(folder, DAY3 | {"replicas": {"us-east-1": "s3://ragab-ml/day3"}, "training_plan": {"us-east-1": PLAN}})
        (line,) = jobs(folder)
        assert (line["job"]["region"], line["job"]["estimated_dollars"]) == ("us-east-1", 0.0)

    def test_a_line_without_the_plan_never_uses_it(self, folder: Path, url: str) -> None:
        reserved(folder, instances=1, hours=5)
        with Catalog(catalog_url(url)).engine.begin() as connection:
            connection.exec_driver_sql("UPDATE capacity SET instances = 0 WHERE training_plan = ''")
        output = planned(folder, DAY1, ON_PLAN)
        assert "line 1 could not be placed" in output
        assert len(jobs(folder)) == 1

    @pytest.mark.parametrize(
        ("instances", "hours", "reason"),
        [
            (0, 5, "it needs 1 instance of ml.p3.16xlarge (training plan november) in us-east-1, and 0 are left"),
            (1, 1.2, "it needs 1.0 hours, and the training plan november has 0.7 until its end"),
        ],
    )
    def test_a_line_for_which_the_plan_has_no_room_is_named(
        self, folder: Path, *, instances: int, hours: float, reason: str
    ) -> None:
        reserved(folder, instances=instances, hours=hours)
        output = planned(folder, ON_PLAN, DAY1)
        assert f"line 1 could not be placed: {reason}" in output
        assert "Remove training_plan from the line" in output

    def test_lines_beyond_the_end_of_the_plan_are_named(self, folder: Path) -> None:
        reserved(folder, instances=1, hours=3.2)
        output = planned(folder, *[ON_PLAN] * 3)
        assert "ml.p3.16xlarge (training plan november) in us-east-1 has no instance free until its end" in output
        assert len(jobs(folder)) == 2

    def test_a_plan_that_the_catalog_lacks_is_one_sentence(self, folder: Path) -> None:
        (folder / "m.jsonl").write_text(json.dumps(ON_PLAN))
        error = refused("plan", "m.jsonl")
        assert error.what == "Line 1: the catalog has no training plan november with ml.p3.16xlarge in us-east-1."
        assert "traingrid capacity refresh" in error.next_step

    def test_a_plan_with_fewer_instances_is_refused_when_applied(self, folder: Path) -> None:
        reserved(folder, instances=2, hours=5)
        planned(folder, ON_PLAN)
        reserved(folder, instances=1, hours=5)
        error = refused("plan", "--apply", "plan.jsonl")
        assert "the number of instances of ml.p3.16xlarge (training plan november) in us-east-1 was 2" in error.what


def after(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def reserved(folder: Path, *, instances: int, hours: float) -> None:
    """Import a training plan that has begun and ends in some hours."""
    head = "region,instance_type,purchase_option,training_plan,instances,starts_at,ends_at,as_of"
    row = f"us-east-1,{P3},on_demand,{PLAN},{instances},{after(-1)},{after(hours)},{TODAY}"
    imported(folder, "capacity", f"{head}\n{row}\n")


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

        def submit(_name: Path, content: bytes, *_: object) -> dict[str, Any]:
            contents.append(content)
            return {"jobs": 1, "submission": "0123abcd", "batch_job": "array"}

        monkeypatch.setattr(command, "submit_content", submit)
        return contents

    def test_exactly_the_planned_jobs_are_submitted(self, folder: Path, submitted: list[bytes]) -> None:
        planned(folder, DAY1, DAY3, options=("--no-moves",))
        assert run("plan", "--apply", "plan.jsonl").exit_code == 0
        (content,) = submitted
        declared, *lines = content.decode().splitlines()
        assert declared == "# jobs: 2"
        assert [json.loads(line) for line in lines] == [line["job"] for line in jobs(folder)]

    def test_hardware_warnings_precede_the_submission_and_name_the_original_lines(
        self, folder: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grid = deployment.grid.model_dump(mode="json", exclude_defaults=True)
        grid["images"] |= {"mine": {"build": "training", "target": "gpu", "efa": "none"}}
        grid["instance_types"] = [P3, P4]
        built = {"gpu": f"built-1@sha256:{'a' * 64}"}
        with_image = replace(deployment, grid=GridSettings.model_validate(grid), images=built)
        monkeypatch.setattr(command, "find_deployment", lambda _grid: with_image)
        for name in ("prices", "capacity"):
            imported(folder, name, FILES[name].replace(P3, P4))
        line = {**DAY1, "image": "mine", "instance_type": P4, "instance_count": 2}
        planned(folder, DAY2 | {"instance_type": P3}, line, options=("--no-moves",))

        def submit(*_: object) -> dict[str, Any]:
            click.echo("submitted", err=True)
            return {"jobs": 2, "submission": "0123abcd", "batch_job": "array"}

        monkeypatch.setattr(command, "submit_content", submit)
        result = run("plan", "--apply", "plan.jsonl", "--output", "json")
        assert json.loads(result.stdout) == [{"submission": "0123abcd", "jobs": 2, "batch_job": "array"}]
        warning, *rest = result.stderr.splitlines()
        assert warning.startswith("Warning: line 2: ml.p4d.24xlarge has EFA, but the image mine is built without it")
        assert rest[0] == "submitted"

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

    def test_a_plan_with_moves_is_submitted_as_a_manifest_that_the_intake_accepts(
        self, folder: Path, submitted: list[bytes], deployment: Deployment
    ) -> None:
        planned(folder, DAY1, DAY2)
        assert run("plan", "--apply", "plan.jsonl").exit_code == 0
        stays, moves = jobs_of_lines(parse(submitted[0], deployment), deployment, "0" * 8)
        assert (stays.region, stays.copy_from) == ("us-east-1", "")
        assert (moves.region, moves.copy_from) == ("eu-central-1", "s3://ragab-ml/day2")
        assert moves.copy_to == f"s3://traingrid-data-{ACCOUNT}-eu-central-1/copies/day2/1"

    def test_a_plan_with_moves_is_refused_if_the_source_has_changed(self, folder: Path, submitted: list[bytes]) -> None:
        imported(folder, "replicas", "dataset,version,region,uri\nday2,1,us-west-2,s3://ragab-ml-pdx/day2\n")
        price = f"from_region,to_region,dollars_per_gb,as_of\nus-west-2,eu-central-1,0.01,{TODAY}\n"
        imported(folder, "transfer_prices", price)
        (job,) = moved(folder, DAY2)
        assert job["copy_from"] == "s3://ragab-ml-pdx/day2"
        imported(
            folder, "replicas", "dataset,version,region,uri,state\nday2,1,us-west-2,s3://ragab-ml-pdx/day2,missing\n"
        )
        assert "day2 version 1 in us-west-2 is not available any more" in refused("plan", "--apply", "plan.jsonl").what
        assert submitted == []

    def test_a_plan_with_moves_is_refused_if_the_grid_no_longer_copies(
        self, folder: Path, submitted: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planned(folder, DAY2)
        monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment_with(moves=False))
        result = run("plan", "--apply", "plan.jsonl")
        assert "this grid does not copy data between Regions" in str(result.exception)
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


def with_clusters(**settings: Any) -> Deployment:
    """Return a deployment with a cluster of EKS in the Region to which the first dataset would move."""
    sample = deployment_with(moves=True)
    grid = sample.grid.model_dump(exclude_defaults=True)
    grid["regions"]["eu-central-1"] |= {"eks": {"cluster": "research"}} | settings
    return replace(sample, grid=GridSettings.model_validate(grid))


def test_a_line_that_may_train_on_eks_is_not_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_deployment", lambda _grid: with_clusters())
    (folder / "manifest.jsonl").write_text(
        json.dumps({"region": "eu-central-1", "s3_uri": "s3://ragab-ml-fra/x", "backend": "eks"})
    )
    assert "Line 1 may train on EKS" in str(refused("plan", "manifest.jsonl", "--no-sync"))


@pytest.mark.parametrize(("backend", "region"), [("sagemaker", "eu-central-1"), ("eks", "us-east-1")])
def test_a_line_does_not_move_to_a_region_that_would_train_it_on_eks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, backend: str, region: str
) -> None:
    monkeypatch.setattr(command, "find_deployment", lambda _grid: with_clusters(backend=backend))
    planned(folder, DAY2)
    assert [line["job"]["region"] for line in jobs(folder)] == [region]
