"""Backends of a line: their order in each of its Regions, and the settings that a cluster of EKS cannot have."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.sample_deployment import ACCOUNT
from traingrid import names
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import NAME_LIMIT, GridSettings
from traingrid.job.job import Job, job_in_region
from traingrid.manifest.errors import LineError, ManifestError
from traingrid.manifest.line import CAPACITY_WAIT_SECONDS, jobs_of_lines
from traingrid.manifest.parse import parse

EAST, WEST, DUBLIN = "us-east-1", "us-west-2", "eu-west-1"
FSX = "fs-0123456789abcdef0"
LINE: dict[str, Any] = {"region": EAST, "s3_uri": "s3://ragab-ml/x"}
REPLICATED = {**LINE, "replicas": {WEST: "s3://ragab-ml-pdx/x", DUBLIN: "s3://ragab-ml-dub/x"}}
HOST_NAME_LIMIT = 63


def changed(deployment: Deployment, **settings: Any) -> Deployment:
    """Return a deployment whose grid has other settings; keys of Regions are added to those that they have."""
    grid = deployment.grid.model_dump(exclude_defaults=True)
    for region, added in settings.pop("regions", {}).items():
        grid["regions"][region] |= added
    return replace(deployment, grid=GridSettings.model_validate(grid | settings))


@pytest.fixture
def mixed(deployment: Deployment) -> Deployment:
    """A grid with a cluster in two of its Regions, one of which prefers it."""
    regions = {
        EAST: {
            "eks": {
                "cluster": "research",
                "s3_volumes": {"ragab-ml": "campaigns"},
                "file_system_volumes": {FSX: "recordings"},
            },
            "file_systems": {FSX: "FSxLustre"},
        },
        DUBLIN: {"eks": {"cluster": "dublin"}, "backend": "eks"},
    }
    return changed(deployment, regions=regions)


def job_of(deployment: Deployment, line: dict[str, Any] | str) -> Job:
    text = line if isinstance(line, str) else json.dumps(line)
    (job,) = jobs_of_lines(parse(text.encode(), deployment), deployment, "0123abcd")
    return job


def places(job: Job) -> dict[str, tuple[str, ...]]:
    return {region: job_in_region(job, region).backends for region in job.regions}


def refused(deployment: Deployment, **line: Any) -> list[LineError]:
    with pytest.raises(ManifestError) as raised:
        parse(json.dumps(LINE | {"backend": "eks"} | line).encode(), deployment)
    return list(raised.value.errors)


def test_a_line_without_backend_trains_on_the_backend_of_each_of_its_regions(mixed: Deployment) -> None:
    assert places(job_of(mixed, REPLICATED)) == {EAST: ("sagemaker",), WEST: ("sagemaker",), DUBLIN: ("eks",)}


def test_the_order_of_a_line_applies_to_all_regions_as_far_as_they_have_the_backends(mixed: Deployment) -> None:
    job = job_of(mixed, REPLICATED | {"backend": ["eks", "sagemaker"]})
    assert places(job) == {EAST: ("eks", "sagemaker"), WEST: ("sagemaker",), DUBLIN: ("eks", "sagemaker")}
    assert job_in_region(job_in_region(job, WEST), EAST) == job


def test_a_csv_separates_backends_by_blanks(mixed: Deployment) -> None:
    text = (
        f"region,s3_uri,backend,capacity_wait,eks_kind,eks_queue\n{EAST},s3://ragab-ml/x,eks sagemaker,2h,mpijob,gpus"
    )
    job = job_of(mixed, text)
    assert (job.backends, job.capacity_wait_seconds) == (("eks", "sagemaker"), 7200)
    assert (job.eks_kind, job.eks_queue) == ("mpijob", "gpus")


def test_a_line_waits_for_capacity_without_limit_unless_one_of_its_candidates_is_on_eks(mixed: Deployment) -> None:
    waits = {
        "one candidate": (LINE | {"backend": "eks"}, 0),
        "only SageMaker": (LINE | {"replicas": {WEST: "s3://ragab-ml-pdx/x"}}, 0),
        "two backends": (LINE | {"backend": ["eks", "sagemaker"]}, CAPACITY_WAIT_SECONDS),
        "a replica on EKS": (LINE | {"replicas": {DUBLIN: "s3://ragab-ml-dub/x"}}, CAPACITY_WAIT_SECONDS),
        "its own": (LINE | {"backend": ["eks", "sagemaker"], "capacity_wait": "5m"}, 300),
    }
    assert {name: job_of(mixed, line).capacity_wait_seconds for name, (line, _) in waits.items()} == {
        name: seconds for name, (_, seconds) in waits.items()
    }


def test_a_manifest_without_backends_makes_the_same_jobs_as_before(deployment: Deployment) -> None:
    dumped = job_of(deployment, REPLICATED).model_dump_json(exclude_defaults=True)
    assert not {"backends", "capacity", "eks"} & set(dumped.replace('"', " ").replace("_", " ").split())


@pytest.mark.parametrize(
    ("line", "field", "sentence"),
    [
        ({"backend": "ecs"}, "backend", "'ecs' is not a backend. Write sagemaker or eks, or both"),
        ({"backend": []}, "backend", "must be a list of words"),
        ({"region": WEST, "s3_uri": "s3://ragab-ml-pdx/x"}, "backend", "us-west-2 has no cluster of EKS in grid.yaml"),
        ({"replicas": {WEST: "s3://ragab-ml-pdx/x"}}, "backend", "us-west-2 has no cluster of EKS in grid.yaml"),
        ({"eks_kind": "pod"}, "eks_kind", "not a valid value. Write job or mpijob."),
        ({"eks_queue": "GPUs"}, "eks_queue", "must have at most 63 lower-case letters, digits and hyphens"),
        ({"eks_queue": "gpus-"}, "eks_queue", "and no hyphen at its start or end. Write the name of a LocalQueue"),
        ({"backend": "sagemaker", "eks_kind": "job"}, "eks_kind", "only valid for a job that may run on EKS"),
        ({"backend": "sagemaker", "eks_queue": "a"}, "eks_queue", "only valid for a job that may run on EKS"),
        ({"capacity_wait": "1"}, "capacity_wait", "a duration is a whole number and a unit"),
        ({"capacity_wait": "5m"}, "capacity_wait", "the line has only one backend in one Region"),
        ({"spot": True, "max_wait": "2d"}, "max_wait", "only SageMaker limits waiting and running together"),
        ({"input_mode": "Pipe"}, "inputs", "the channel train is in Pipe mode, which EKS does not have. Write input_m"),
        (
            {"input_mode": "FastFile", "region": DUBLIN, "s3_uri": "s3://ragab-ml-dub/x"},
            "inputs",
            "the cluster in eu-west-1 has no volume of ragab-ml-dub. Write input_mode File, or add",
        ),
        (
            {"s3_uri": None, "inputs": {"a": {"uri": "s3://ragab-ml/x", "input_mode": "FastFile", "manifest": True}}},
            "inputs",
            "the channel a is a ManifestFile",
        ),
        (
            {
                "s3_uri": None,
                "image": f"{ACCOUNT}.dkr.ecr.{EAST}.amazonaws.com/traingrid/own:1",
                "inputs": {"a": {"uri": "s3://ragab-ml/x", "input_mode": "Pipe", "attributes": ["x"]}},
            },
            "inputs",
            "the channel a is an augmented manifest, which only SageMaker streams. Write backend sagemaker.",
        ),
        ({"instance_count": 2}, "instance_count", "encrypt_traffic in grid.yaml is on, which is the default"),
    ],
)
def test_a_line_that_eks_cannot_run_is_refused(mixed: Deployment, line: Any, field: str, sentence: str) -> None:
    found = refused(mixed, **line)
    assert {error.field for error in found} == {field}
    assert sentence in f"{found[0].reason}. {found[0].next_step}"


@pytest.mark.parametrize("kind", ["ml.p6e-gb200.36xlarge", "ml.m8g.xlarge"])
def test_a_line_on_arm_is_refused_on_eks_only(mixed: Deployment, kind: str) -> None:
    grid = changed(mixed, instance_types=[kind])
    (error,) = refused(grid, instance_type=kind)
    assert (error.field, error.reason) == (
        "instance_type",
        "its CPUs are Arm, and two containers of each pod on EKS, prepare and results, run on x86 only",
    )
    assert job_of(grid, LINE | {"instance_type": kind}).instance_type == kind


def test_fast_file_mode_with_a_volume_is_accepted(mixed: Deployment) -> None:
    assert job_of(mixed, LINE | {"backend": "eks", "input_mode": "FastFile"}).backends == ("eks",)


def test_a_file_system_without_a_vpc_is_mounted_on_eks_only(mixed: Deployment) -> None:
    mounted = {"region": EAST, "inputs": {"train": {"file_system": FSX, "path": "/x"}}}
    assert job_of(mixed, mounted | {"backend": "eks"}).inputs["train"].file_system == FSX
    (error,) = refused(mixed, **mounted, s3_uri=None, backend=["eks", "sagemaker"])
    assert "SageMaker mounts only through a VPC" in error.reason


def test_a_file_system_without_a_volume_is_mounted_on_sagemaker_only(mixed: Deployment) -> None:
    vpc = {"subnets": ["subnet-01234567"], "security_groups": ["sg-01234567"], "eks": {"cluster": "research"}}
    grid = changed(mixed, regions={EAST: vpc})
    mounted = {"region": EAST, "inputs": {"train": {"file_system": FSX, "path": "/x"}}}
    assert job_of(grid, mounted).backends == ("sagemaker",)
    (error,) = refused(grid, **mounted, s3_uri=None)
    assert f"the cluster in us-east-1 has no volume of {FSX}" in error.reason


def test_several_hosts_without_encrypted_traffic_are_accepted(mixed: Deployment) -> None:
    plain = changed(mixed, training={"encrypt_traffic": False})
    line = LINE | {"backend": "eks", "instance_count": 2}
    assert job_of(plain, line).instance_count == 2
    fast = {"a": {"uri": "s3://ragab-ml/x", "input_mode": "FastFile", "distribution": "ShardedByS3Key"}}
    (error,) = refused(plain, instance_count=2, s3_uri=None, inputs=fast)
    assert "the channel a is sharded, but a volume of its bucket shows every host all objects" in error.reason


@pytest.mark.parametrize("kind", ["mpijob", "job"])
@pytest.mark.parametrize("launcher", ["none", "torchrun", "mpi"])
@pytest.mark.parametrize("hosts", [1, 2])
def test_an_mpijob_does_not_end_hosts_whose_programs_are_independent(
    mixed: Deployment, kind: str, launcher: str, hosts: int
) -> None:
    plain = changed(mixed, training={"encrypt_traffic": False})
    script = {"source": "s3://ragab-ml/source.tar.gz", "entry_point": "train.py"}
    line = {**script, "eks_kind": kind, "launcher": launcher, "instance_count": hosts}
    if (kind, launcher, hosts) != ("mpijob", "none", 2):
        assert job_of(plain, LINE | line | {"backend": "eks"}).launcher == launcher
        return
    (error,) = refused(plain, **line)
    assert (error.field, error.reason) == (
        "launcher",
        "an MPIJob ends with its first host, and the programs of the other hosts with it",
    )


def test_settings_that_only_sagemaker_has_are_refused(mixed: Deployment) -> None:
    queued = {EAST: {"service_queue": {"instances": 4}, "training_plans": ["november"]}}
    grid = changed(
        mixed,
        regions=queued,
        algorithms=["forest"],
        training={"max_keep_alive": "30m"},
        instance_types=["ml.x9.large"],
        images={
            "resnet": {"repository": "training", "tag": "1"},
            "trees": {"algorithm": "xgboost", "version": "1.7-1"},
        },
    )
    grid = replace(grid)
    plan = f"arn:aws:sagemaker:{EAST}:{ACCOUNT}:training-plan/november"
    image = "Write backend sagemaker, or use a custom training image."
    unknown = "traingrid does not know how many accelerators this type has, and pods must request them"
    for line, field, sentence in (
        ({"algorithm": "forest"}, "algorithm", image),
        ({"image": "trees"}, "image", image),
        ({"launch": "queued"}, "launch", "Write launch direct"),
        ({"keep_alive": "10m"}, "keep_alive", "Remove it, or write backend sagemaker."),
        ({"training_plan": plan}, "training_plan", "Remove it, or write backend sagemaker."),
        ({"instance_type": "ml.x9.large"}, "instance_type", f"{unknown}. Use another type"),
    ):
        errors = {error.field: error for error in refused(grid, **line, backend=["sagemaker", "eks"])}
        assert sentence in f"{errors[field].reason}. {errors[field].next_step}", line


def test_a_service_queue_has_no_capacity_wait(mixed: Deployment) -> None:
    regions = {region: {"service_queue": {"instances": 4}} for region in (EAST, WEST)}
    line = {"launch": "queued", "capacity_wait": "5m", "replicas": {WEST: "s3://ragab-ml-pdx/x"}}
    (error,) = refused(changed(mixed, regions=regions), **line, backend="sagemaker")
    assert (error.field, error.reason) == ("capacity_wait", "a service queue keeps its jobs until it has room")


def test_the_names_of_hosts_always_fit_into_a_dns_label() -> None:
    longest = names.training_job("g" * NAME_LIMIT, "0" * 8, 49_999, 999)
    assert len(f"{longest}-worker-{10**9}") <= HOST_NAME_LIMIT


def test_a_budget_requires_the_price_of_lines_that_may_train_on_sagemaker(mixed: Deployment) -> None:
    budget = {"budget_dollars": 100}
    assert job_of(mixed, LINE | budget | {"backend": "eks"}).budget_dollars == 100
    (error,) = refused(mixed, **budget, backend=["eks", "sagemaker"])
    assert error.field == "dollars_per_hour"
