"""The line of a merge: Region, residency, data, instance type and options."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.sample_deployment import SAMPLE_BUCKETS
from tests.unit.merge.conftest import Make
from traingrid.aws.s3_copy import ObjectHead
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Channel
from traingrid.manifest.json_lines import json_lines
from traingrid.manifest.parse import parse
from traingrid.merge.line import MergeRequest, copy_uri, merge_line, models_folder, region_of
from traingrid.merge.models import Model

FOLDER = S3Uri("data", "merges/0")


@pytest.fixture
def deployment(deployment: Deployment) -> Deployment:
    return with_grid(deployment, moves=True, instance_types=["ml.m5.xlarge"])


def with_grid(deployment: Deployment, **changes: Any) -> Deployment:
    grid = deployment.grid
    return replace(deployment, grid=type(grid).model_validate({**grid.model_dump(exclude_unset=True), **changes}))


def line(models: list[Model], deployment: Deployment, **request: Any) -> dict[str, Any]:
    region = models[0].job.region
    local = next((each for each in models if each.job.region == region), None)
    return merge_line(models, MergeRequest(**request), FOLDER, 10**9, region=region, local=local, deployment=deployment)


def refusal(models: list[Model], deployment: Deployment, **request: Any) -> str:
    with pytest.raises(UsageError) as error:
        region_of(models, MergeRequest(**request), deployment.grid)
    return str(error.value)


def test_the_merge_is_in_the_region_with_most_models(model: Make, deployment: Deployment) -> None:
    models = [model(0), model(1, "eu-west-1"), model(2, "eu-west-1")]
    assert region_of(models, MergeRequest(), deployment.grid) == "eu-west-1"
    assert region_of(models, MergeRequest(region="us-west-2"), deployment.grid) == "us-west-2"
    assert refusal(models, deployment, region="mars-1").startswith("mars-1 is not a training Region of this grid.")


def test_copies_between_regions_need_the_consent_of_grid_yaml(model: Make, deployment: Deployment) -> None:
    models = [model(0), model(1, "eu-west-1")]
    expected = "The model of job 1 cannot be copied from eu-west-1 to us-east-1: grid.yaml does not have `moves: true`."
    assert refusal(models, with_grid(deployment, moves=False)).startswith(expected)


def test_the_residency_of_a_region_forbids_the_copy_of_its_models(model: Make, deployment: Deployment) -> None:
    residencies = {"eu-west-1": ["eu"], "eu-central-1": ["eu"]}
    regions = {
        name: settings.model_dump(exclude_unset=True)
        | ({"residency": residencies[name]} if name in residencies else {})
        for name, settings in deployment.grid.regions.items()
    }
    strict = with_grid(deployment, regions=regions)
    models = [model(0), model(1, "eu-west-1")]
    assert "grid.yaml allows the data of eu-west-1 only in eu." in refusal(models, strict)
    assert region_of(models, MergeRequest(region="eu-west-1"), strict.grid) == "eu-west-1"


def test_the_residency_of_a_line_forbids_the_copy_of_its_model(model: Make, deployment: Deployment) -> None:
    models = [model(0), model(1, "eu-west-1", residency=("eu",))]
    assert "from eu-west-1 to us-east-1: its line allows only eu." in refusal(models, deployment)


def test_a_region_in_another_account_cannot_merge(model: Make, deployment: Deployment) -> None:
    regions = {name: settings.model_dump(exclude_unset=True) for name, settings in deployment.grid.regions.items()}
    regions["eu-west-1"]["account"] = "210987654321"
    apart = with_grid(deployment, regions=regions, account=deployment.account)
    models = [model(0, "eu-west-1"), model(1, "eu-west-1")]
    assert "eu-west-1 is in another account than the home Region." in refusal(models, apart)


def test_the_folder_of_copies_follows_from_the_contents(model: Make, deployment: Deployment) -> None:
    models = [model(0), model(1)]
    folders = {
        str(models_folder(models, [ObjectHead(size=1, etag=etag) for etag in etags], "us-east-1", deployment))
        for etags in (("a", "b"), ("a", "b"), ("a", "c"))
    }
    assert len(folders) == 2
    assert copy_uri(models[1], 1, FOLDER) == S3Uri("data", "merges/0/part-001-0a1b2c3d-1.tar.gz")


def test_the_line_merges_on_one_host_without_accelerators(model: Make, deployment: Deployment) -> None:
    found = line([model(0), model(1)], deployment)
    assert found["instance_type"] == "ml.m5.xlarge"
    assert (found["instance_count"], found["processes_per_host"], found["launcher"]) == (1, 1, "mpi")
    assert found["hyperparameters"]["sagemaker_image_program"] == "merge"
    assert found["hyperparameters"]["merge_count"] == "2"
    assert found["inputs"]["models"] == {"uri": "s3://data/merges/0/", "input_mode": "File"}
    assert "part_1_top1" in found["metrics"]
    assert "residency" not in found


def test_an_image_with_pytorch_joins_parts_without_mpi(model: Make, deployment: Deployment) -> None:
    images = deployment.grid.model_dump(mode="json", exclude_defaults=True)["images"]
    both = with_grid(deployment, images=images | {"torch": {"build": "training", "target": "torch"}})
    models = [model(0), model(1)]
    assert line(models, both, method="parts", image="torch")["launcher"] == "none"
    assert line(models, both, method="parts")["launcher"] == "mpi"
    alone = with_grid(deployment, images={"resnet": {"build": "training", "target": "torch"}})
    joined = line(models, alone, method="parts")
    assert joined["launcher"] == "none"
    parse(json_lines([joined | {"inputs": {}, "s3_uri": f"s3://{SAMPLE_BUCKETS['us-east-1']}/x"}]).encode(), alone)


def test_a_channel_that_was_streamed_is_read_as_files(model: Make, deployment: Deployment) -> None:
    streamed = Channel(uri="s3://b/train/", input_mode="Pipe", distribution="ShardedByS3Key", shuffle_seed=3)
    mounted = Channel(file_system="fs-1", type="EFS", path="/val")
    inputs = line([model(0, inputs={"train": streamed, "validation": mounted}), model(1)], deployment)["inputs"]
    assert inputs["train"] == {"uri": "s3://b/train/", "input_mode": "FastFile"}
    assert inputs["validation"] == {"file_system": "fs-1", "type": "EFS", "path": "/val"}


def test_a_folder_of_data_replaces_that_of_the_jobs(model: Make, deployment: Deployment) -> None:
    inputs = line([model(0), model(1)], deployment, method="ensemble", data="s3://b/all/")["inputs"]
    assert inputs["validation"]["uri"] == "s3://b/all/validation/"
    assert set(inputs) == {"models", "validation"}


def test_joined_parts_need_no_data_and_have_no_metrics(model: Make, deployment: Deployment) -> None:
    found = line([model(0, inputs={}), model(1)], deployment, method="parts", folders=True)
    assert set(found["inputs"]) == {"models"}
    assert "metrics" not in found
    assert found["hyperparameters"]["merge_layout"] == "folders"


def test_sagemakers_limit_of_metrics_is_kept(model: Make, deployment: Deployment) -> None:
    assert len(line([model(index) for index in range(30)], deployment)["metrics"]) <= 40


def test_models_of_one_residency_keep_it(model: Make, deployment: Deployment) -> None:
    assert line([model(0, residency=("us",)), model(1, residency=("us",))], deployment)["residency"] == ["us"]
    assert line([model(0, residency=("us",)), model(1)], deployment)["residency"] == ["us-east-1"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"instance_types": []}, "A merge runs without accelerators, and all instance types of this grid have some: "),
        (
            {"images": {"resnet": {"repository": "other", "tag": "1"}}},
            "The image resnet is not the grid's training image",
        ),
    ],
)
def test_a_grid_that_cannot_merge_is_named(
    model: Make, deployment: Deployment, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError) as error:
        line([model(0), model(1)], with_grid(deployment, **changes))
    assert str(error.value).startswith(expected)


def test_a_job_without_validation_data_is_named(model: Make, deployment: Deployment) -> None:
    train = {"train": Channel(uri="s3://b/train/")}
    with pytest.raises(UsageError, match=r"^Job 0 has no channel validation, which the method average reads"):
        line([model(0, inputs=train), model(1)], deployment)


@pytest.mark.parametrize(
    ("settings", "form"),
    [
        ({"attributes": ("image-ref", "label"), "record_wrapper": "RecordIO"}, "an augmented manifest"),
        ({"content_type": "application/x-recordio"}, "RecordIO"),
        ({"record_wrapper": "RecordIO"}, "RecordIO"),
    ],
)
def test_data_that_can_only_be_streamed_is_refused(
    model: Make, deployment: Deployment, settings: dict[str, Any], form: str
) -> None:
    files = Channel(uri="s3://b/train/")
    streamed = Channel(uri="s3://b/validation", input_mode="Pipe", **settings)
    models = [model(0, inputs={"train": files, "validation": streamed}), model(1)]
    expected = f"The channel validation of job 0 is {form}, which can only be streamed, and a merge reads files."
    for method in ("average", "ensemble"):
        with pytest.raises(UsageError, match=f"^{expected}") as error:
            line(models, deployment, method=method)
        assert "--data s3://BUCKET/FOLDER" in error.value.next_step
    assert line(models, deployment, data="s3://b/all")["inputs"]["validation"]["uri"] == "s3://b/all/validation/"
    assert set(line(models, deployment, method="parts")["inputs"]) == {"models"}
