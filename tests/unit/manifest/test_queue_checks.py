"""Manifest queues: valid shares and launches of lines, and the errors of invalid ones."""

from dataclasses import replace
from typing import Any

import pytest

from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.manifest.plan import planned
from traingrid.manifest.resource_checks import ResourceCheck

EAST, WEST = "s3://ragab-ml/x", "s3://ragab-ml-pdx/x"
QUEUES: dict[str, Any] = {
    "us-east-1": {"instances": 4},
    "us-west-2": {"quota_shares": {"research": {"ml.p3.16xlarge": 2}, "production": {"ml.p3.16xlarge": 6}}},
}


def with_queues(deployment: Deployment, **job: Any) -> Deployment:
    """A grid with two shares, and one Region with each kind of queue; other Regions have none."""
    settings = deployment.grid.model_dump(exclude_defaults=True)
    settings["shares"] = {"research": 1, "production": 4}
    for region, queue in QUEUES.items():
        settings["regions"][region]["service_queue"] = queue
    settings["job"] |= job
    return replace(deployment, grid=GridSettings.model_validate(settings))


def refused(deployment: Deployment, text: str) -> list[tuple[str, str]]:
    with pytest.raises(ManifestError) as raised:
        parse(text.encode(), deployment)
    return [(error.field, f"{error.reason}. {error.next_step}") for error in raised.value.errors]


def test_a_line_sets_its_launch_and_share(deployment: Deployment) -> None:
    grid = with_queues(deployment, share="research")
    lines = parse(f"region,s3_uri,launch,priority\nus-east-1,{EAST},queued,7\nus-east-1,{EAST},,\n".encode(), grid)
    jobs = jobs_of_lines(lines, grid, "0123abcd")
    assert [(job.launch, job.share, job.priority) for job in jobs] == [
        ("queued", "research", 7),
        ("direct", "research", 0),
    ]


def test_a_grid_without_queues_and_shares_needs_neither(deployment: Deployment) -> None:
    (job,) = jobs_of_lines(parse(f"us-east-1,{EAST}\n".encode(), deployment), deployment, "0123abcd")
    assert (job.launch, job.share) == ("direct", "")


def test_queued_is_refused_without_a_service_queue(deployment: Deployment) -> None:
    grid = with_queues(deployment, share="research")
    text = "region,s3_uri,launch\neu-west-1,s3://ragab-ml-dub/x,queued\n"
    next_step = "Write direct, or give eu-west-1 a service_queue in grid.yaml and deploy."
    assert refused(grid, text) == [("launch", f"eu-west-1 has no service queue. {next_step}")]


def test_a_replica_needs_a_queue_too(deployment: Deployment) -> None:
    grid = with_queues(deployment, share="research")
    text = f"region,s3_uri,launch,replica.eu-west-1\nus-east-1,{EAST},queued,s3://ragab-ml-dub/x\n"
    assert [field for field, _ in refused(grid, text)] == ["launch"]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("reserch", "not a share of this grid. The shares are research, production."),
        ("", "a value is required. Write research, production, or set `share` in grid.yaml."),
    ],
)
def test_every_job_of_a_shared_grid_requires_a_valid_share(deployment: Deployment, cell: str, reason: str) -> None:
    assert refused(with_queues(deployment), f"region,s3_uri,share\nus-east-1,{EAST},{cell}\n") == [("share", reason)]


def test_a_share_is_refused_without_shares_in_the_grid(deployment: Deployment) -> None:
    ((field, reason),) = refused(deployment, f"region,s3_uri,share\nus-east-1,{EAST},research\n")
    assert field == "share"
    assert "defined by `shares` in grid.yaml" in reason


def test_all_lines_of_a_file_must_have_the_same_share(deployment: Deployment) -> None:
    text = f"region,s3_uri,share\nus-east-1,{EAST},research\nus-east-1,{EAST},production\n"
    ((_, reason),) = refused(with_queues(deployment), text)
    assert (
        reason == "its lines have the shares research, production, and a submission may have only one share. "
        "Write one file for each share."
    )


@pytest.mark.parametrize(
    ("region", "uri", "share", "most"),
    [("us-east-1", EAST, "research", 4), ("us-west-2", WEST, "research", 2), ("us-west-2", WEST, "production", 6)],
)
def test_a_job_larger_than_the_queues_limit_is_refused(
    deployment: Deployment, region: str, uri: str, share: str, most: int
) -> None:
    grid, head = with_queues(deployment, share=share, launch="direct"), "region,s3_uri,launch,instance_count\n"
    assert parse(f"{head}{region},{uri},queued,{most}\n".encode(), grid)
    assert parse(f"{head}{region},{uri},direct,{most + 1}\n".encode(), grid)
    ((field, reason),) = refused(grid, f"{head}{region},{uri},queued,{most + 1}\n")
    assert field == "instance_count"
    assert f"runs at most {most} of ml.p3.16xlarge at once" in reason


def test_the_plan_shows_the_queue_of_a_line(deployment: Deployment) -> None:
    grid = with_queues(deployment, share="research", launch="direct")
    lines = parse(f"region,s3_uri,launch,priority\nus-east-1,{EAST},queued,7\nus-east-1,{EAST},,\n".encode(), grid)
    outcomes = [one.outcome for one in planned(lines, grid, lambda _job: ResourceCheck())]
    assert outcomes == ["would wait in the queue of us-east-1 of research, with priority 7", "would train"]


def test_a_request_too_large_for_a_service_job_is_refused(deployment: Deployment) -> None:
    grid = with_queues(deployment, share="research")
    head = "region,s3_uri,launch," + ",".join(f"hp.x{number}" for number in range(5))
    row = f"us-east-1,{EAST},{{}}," + ",".join(["y" * 2000] * 5)
    assert parse(f"{head}\n{row.format('direct')}\n".encode(), grid)
    ((field, reason),) = refused(grid, f"{head}\n{row.format('queued')}\n")
    assert field == "launch"
    assert "bytes, and a service queue accepts at most 10,240" in reason
