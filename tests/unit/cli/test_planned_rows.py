"""Planned rows: `submit --plan` fits the terminal, and describes the data and the image of each job on request."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.support.sample_job import sample_job
from tests.unit.cli.command_samples import returns
from tests.unit.cli.job_samples import replace_plans
from traingrid.cli import submit
from traingrid.cli.main import cli
from traingrid.cli.planned_rows import planned_table
from traingrid.manifest.plan import Planned
from traingrid.manifest.resource_checks import ResourceCheck

LARGE = {"instance_type": "ml.p4d.24xlarge", "instance_count": 16, "spot": True, "processes_per_host": 8}
DIGEST = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/traingrid/training@sha256:{'0123456789abcdef' * 4}"
EMPTY = "no data found under s3://bucket/x/"


def planned_job(index: int, trouble: str = "", **fields: Any) -> Planned:
    region = ("us-east-1", "ap-southeast-2")[index % 2]
    job = sample_job(region, index).model_copy(update={"name": f"long-name-of-job-{index}", "image": DIGEST, **fields})
    return Planned(job=job, resources=ResourceCheck(trouble=trouble))


JOBS = [planned_job(index, EMPTY * (index in (3, 4)), **LARGE) for index in range(10)]


def table(jobs: list[Planned], width: int) -> list[str]:
    out = Console(width=width, highlight=False, no_color=True)
    with out.capture() as capture:
        out.print(planned_table(jobs, width))
    return capture.get().splitlines()


def plan(monkeypatch: pytest.MonkeyPatch, folder: Path, jobs: list[Planned], *options: str) -> tuple[int, list[str]]:
    """Return the exit status of `submit --plan` in a terminal of 80 columns, and the lines that it prints."""
    replace_plans(monkeypatch.setattr)
    monkeypatch.setattr(submit, "planned", returns(jobs))
    (folder / "x.csv").touch()
    terminal = {"FORCE_COLOR": "1", "TERM": "dumb"}
    result = CliRunner(env=terminal).invoke(cli, ["submit", str(folder / "x.csv"), *options])
    return result.exit_code, result.output.splitlines()


def test_a_row_of_80_columns_has_the_instances_and_the_outcome_in_full() -> None:
    headings, *rows = table(JOBS, 80)
    assert headings.split() == ["line", "Region", "job", "instances", "outcome"]
    assert len(rows) == len(JOBS)
    assert all("16 x ml.p4d.24xlarge spot" in row for row in rows)
    assert [row.split()[0] for row in rows] == [str(number) for number in range(1, 11)]
    assert [number for number, row in enumerate(rows) if row.endswith("would fail")] == [3, 4]


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120, 200])
def test_a_narrow_terminal_shortens_only_names_and_leaves_other_columns_out(width: int) -> None:
    headings, *rows = table(JOBS, width)
    assert max(map(len, (headings, *rows))) <= width
    assert len(rows) == len(JOBS)
    for row, job in zip(rows, JOBS, strict=True):
        assert row.split()[0] == str(job.job.line)
        assert row.endswith(job.verdict)
        assert ("ml." in row) == ("16 x ml.p4d.24xlarge spot" in row) == ("instances" in headings)


def test_ten_lines_with_a_problem_fit_one_screen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, lines = plan(monkeypatch, tmp_path, JOBS, "--plan")
    assert (code, len(lines) <= 24, max(map(len, lines)) <= 80) == (1, True, True)
    assert f"Outcome: lines 4, 5: would fail: {EMPTY}" in lines
    assert "With --details, each job has its data and its image." in lines


@pytest.mark.parametrize(("jobs", "options"), [(JOBS, ["--details"]), (JOBS[3:4], [])])
def test_the_data_and_the_image_of_a_job_are_printed_on_request_and_for_a_single_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: list[Planned], options: list[str]
) -> None:
    _, lines = plan(monkeypatch, tmp_path, jobs, "--plan", *options)
    begin = lines.index("line 4: long-name-of-job-3")
    assert [line.split(None, 1) for line in lines[begin + 1 : begin + 4]] == [
        ["Region", "ap-southeast-2"],
        ["instances", "16 x ml.p4d.24xlarge spot"],
        ["ranks", "128"],
    ]
    assert lines[begin + 4 : begin + 7] == [
        "  data: train  s3://traingrid-data-123456789012-ap-southeast-2/x/",
        f"  image        {DIGEST}",
        f"  outcome      would fail: {EMPTY}",
    ]


@pytest.mark.parametrize("options", [["--details"], ["--details", "--plan", "--output", "json"]])
def test_details_of_other_outputs_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str]
) -> None:
    monkeypatch.setattr(submit, "submit_manifest", returns(None))
    replace_plans(monkeypatch.setattr)
    (tmp_path / "x.csv").touch()
    result = CliRunner().invoke(cli, ["submit", str(tmp_path / "x.csv"), *options])
    assert "--details adds sentences to the table of --plan" in str(result.exception)
