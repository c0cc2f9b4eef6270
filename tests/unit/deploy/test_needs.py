"""Needs: jobs that may run on SageMaker need its quotas, and lines on EKS the kinds and queues of their clusters."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.cli.doctor import needs_of
from traingrid.deploy.checkup.needs import ClusterNeed, Needs, cluster_needs
from traingrid.deploy.checkup.quotas import grid_needs, job_needs
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest.line import NO_SUBMISSION, iter_jobs
from traingrid.manifest.parse import parse

EAST, WEST, DUBLIN = "us-east-1", "us-west-2", "eu-west-1"
LINE = {"region": EAST, "s3_uri": "s3://ragab-ml/x"}
IN_DUBLIN = {"region": DUBLIN, "s3_uri": "s3://ragab-ml-dub/x"}


@pytest.fixture
def deployment() -> Deployment:
    """A grid with a cluster in two of its Regions, one of which trains on EKS by default."""
    sample = sample_deployment()
    grid = sample.grid.model_dump(exclude_defaults=True)
    grid["regions"][EAST]["eks"] = {"cluster": "research"}
    grid["regions"][DUBLIN] |= {"eks": {"cluster": "dublin"}, "backend": "eks"}
    grid["training"] = {"encrypt_traffic": False}
    return replace(sample, grid=GridSettings.model_validate(grid))


def instances(deployment: Deployment, *lines: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the instances for the largest job, and for all jobs, by Region."""
    content = "\n".join(map(json.dumps, lines)).encode()
    needs = job_needs(iter_jobs(parse(content, deployment), deployment, NO_SUBMISSION))
    return {need.region: (need.largest_job_instances, need.all_jobs_instances) for need in needs}


def test_a_region_that_trains_on_eks_by_default_needs_no_quota_of_sagemaker(deployment: Deployment) -> None:
    assert {need.region for need in grid_needs(deployment.grid)} == set(deployment.grid.regions) - {DUBLIN}


def test_only_lines_that_may_run_on_sagemaker_need_its_quotas(deployment: Deployment) -> None:
    on_eks = LINE | {"backend": "eks", "instance_count": 8}
    assert instances(deployment, on_eks) == {}
    assert instances(deployment, LINE | {"instance_count": 2}, on_eks) == {EAST: (2, 2)}
    either = LINE | {"backend": ["eks", "sagemaker"], "instance_count": 4}
    assert instances(deployment, LINE | {"instance_count": 2}, on_eks, either) == {EAST: (4, 6)}


def test_the_backend_of_a_region_applies_to_lines_without_one(deployment: Deployment) -> None:
    assert instances(deployment, IN_DUBLIN) == {}
    assert instances(deployment, IN_DUBLIN | {"backend": "sagemaker", "instance_count": 3}) == {DUBLIN: (3, 3)}


def test_lines_need_their_kinds_and_queues_in_each_region_where_they_may_run_on_eks(deployment: Deployment) -> None:
    replicas = {WEST: "s3://ragab-ml-pdx/x", DUBLIN: "s3://ragab-ml-dub/x"}
    lines = [
        LINE | {"backend": "eks", "eks_kind": "mpijob", "eks_queue": "gpus"},
        LINE | {"backend": ["eks", "sagemaker"], "eks_queue": "gpus", "replicas": replicas},
        LINE,
        IN_DUBLIN | {"eks_kind": "job"},
    ]
    found = cluster_needs(parse("\n".join(map(json.dumps, lines)).encode(), deployment), deployment.grid)
    assert found == [
        ClusterNeed(region=EAST, field="kind", value="mpijob", line=1),
        ClusterNeed(region=EAST, field="queue", value="gpus", line=1),
        ClusterNeed(region=DUBLIN, field="queue", value="gpus", line=2),
        ClusterNeed(region=DUBLIN, field="kind", value="job", line=4),
    ]


def test_doctor_reads_both_needs_from_a_manifest(deployment: Deployment, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text(json.dumps(LINE | {"backend": "eks", "eks_queue": "gpus"}))
    need = ClusterNeed(region=EAST, field="queue", value="gpus", line=1)
    assert needs_of(deployment.grid, deployment.account, manifest) == Needs(instances=[], clusters=[need])
    assert needs_of(deployment.grid, deployment.account, None).clusters == ()
