"""Images: the image that a line's job pulls in each Region, and the images that a line may name."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.sample_deployment import ACCOUNT, sample_deployment
from traingrid.backends.sagemaker.request import training_job_request
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.grid.framework_images import FrameworkImage, to_environment
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

GPU, CPU = "sha256:" + "a" * 64, "sha256:" + "b" * 64
IMAGES = {
    "resnet": {"build": "training", "target": "gpu"},
    "small": {"build": "training", "target": "cpu"},
    "pushed": {"repository": "training", "tag": "1"},
    "theirs": {"uri": "763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14"},
}
BUILT = {"gpu": f"built-gpu-1@{GPU}", "cpu": f"built-cpu-1@{CPU}"}
HERE = f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com/traingrid"


def a_deployment(**changes: Any) -> Deployment:
    sample = sample_deployment()
    described = {**sample.grid.model_dump(), "images": IMAGES, **changes}
    return replace(sample, grid=GridSettings.model_validate(described), images=BUILT)


def images(deployment: Deployment, image: str) -> set[str]:
    """Return the images of two jobs, in us-west-2 and in eu-west-1."""
    lines = "".join(
        f"{region},s3://{bucket}/data,{image}\n"
        for region, bucket in (("us-west-2", "ragab-ml-pdx"), ("eu-west-1", "ragab-ml-dub"))
    )
    parsed = parse(f"region,s3_uri,image\n{lines}".encode(), deployment)
    return {job.image for job in jobs_of_lines(parsed, deployment, "00000000")}


@pytest.mark.parametrize(("alias", "digest"), [("resnet", GPU), ("small", CPU)])
def test_a_job_has_the_digest_of_the_built_image_in_its_region(alias: str, digest: str) -> None:
    assert images(a_deployment(), alias) == {
        f"{ACCOUNT}.dkr.ecr.{region}.amazonaws.com/traingrid/training@{digest}" for region in ("us-west-2", "eu-west-1")
    }


def test_an_image_that_users_push_is_named_by_its_tag() -> None:
    assert f"{HERE}/training:1" in images(a_deployment(), "pushed")


def test_a_uri_in_grid_yaml_is_resolved_for_the_jobs_region() -> None:
    theirs = "763104351884.dkr.ecr.{}.amazonaws.com/tensorflow-training:2.14"
    assert images(a_deployment(), "theirs") == {theirs.format("us-west-2"), theirs.format("eu-west-1")}


TENSORFLOW = {"framework": "tensorflow", "version": "2.19", "target": "gpu"}


def test_a_framework_is_pulled_from_the_registry_of_the_jobs_region() -> None:
    image = FrameworkImage(
        image="tensorflow-training:2.19-gpu", registry="1" * 12, other_registries={"eu-west-1": "2" * 12}
    )
    deployment = replace(a_deployment(images={**IMAGES, "tf": TENSORFLOW}), frameworks={"tf": image})
    assert images(deployment, "tf") == {
        "111111111111.dkr.ecr.us-west-2.amazonaws.com/tensorflow-training:2.19-gpu",
        "222222222222.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-training:2.19-gpu",
    }
    environment = {**variables(deployment, BUILT), "TRAINGRID_FRAMEWORKS": to_environment(deployment.frameworks)}
    assert Deployment.from_environment(environment).frameworks == deployment.frameworks
    with pytest.raises(UsageError, match="no image for tf"):
        Deployment.from_environment(variables(deployment, BUILT))


CLASSES = {"algorithm": "semantic-segmentation", "version": "1"}


def with_an_algorithm(**changes: Any) -> Deployment:
    known = FrameworkImage(image="semantic-segmentation:1", registry="1" * 12, other_registries={"eu-west-1": "2" * 12})
    deployment = a_deployment(images={**IMAGES, "classes": CLASSES}, **changes)
    return replace(deployment, frameworks={"classes": known})


def requested(deployment: Deployment, **values: Any) -> dict[str, Any]:
    """Return the CreateTrainingJob request of a line for us-west-2."""
    line = {"region": "us-west-2", "s3_uri": "s3://ragab-ml-pdx/data", **values}
    (job,) = jobs_of_lines(parse(json.dumps(line).encode(), deployment), deployment, "00000000")
    return training_job_request("x", job, "arn", {})


def test_a_built_in_algorithm_is_pulled_from_the_registry_of_the_jobs_region() -> None:
    deployment = with_an_algorithm()
    assert images(deployment, "classes") == {
        "111111111111.dkr.ecr.us-west-2.amazonaws.com/semantic-segmentation:1",
        "222222222222.dkr.ecr.eu-west-1.amazonaws.com/semantic-segmentation:1",
    }
    environment = {**variables(deployment, BUILT), "TRAINGRID_FRAMEWORKS": to_environment(deployment.frameworks)}
    assert Deployment.from_environment(environment).image_uri("classes", "eu-west-1").startswith("222222222222.")
    with pytest.raises(UsageError, match="no image for classes"):
        Deployment.from_environment(variables(deployment, BUILT))


def test_a_planned_grid_has_no_registry_for_an_algorithm() -> None:
    planned = replace(with_an_algorithm(), frameworks={}).image_uri("classes", "us-west-2")
    assert planned == "account-of-aws.dkr.ecr.us-west-2.amazonaws.com/semantic-segmentation:1"


def test_a_built_in_algorithm_receives_only_its_lines_settings() -> None:
    """The algorithm rejects unknown hyperparameters, and defines its own metrics."""
    asked = requested(with_an_algorithm(), image="classes", hyperparameters={"num_classes": 10})
    image = "111111111111.dkr.ecr.us-west-2.amazonaws.com/semantic-segmentation:1"
    assert asked["AlgorithmSpecification"] == {"TrainingImage": image, "TrainingInputMode": "File"}
    assert asked["HyperParameters"] == {"num_classes": "10"}
    assert "Environment" not in asked


def test_a_channel_sets_the_content_type_of_an_algorithms_data() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/semantic-segmentation.html#semantic-segmentation-inputoutput"""
    line = {
        "region": "us-west-2",
        "image": "classes",
        "inputs": {
            "train": {"uri": "s3://ragab-ml-pdx/train/", "content_type": "image/jpeg"},
            "validation": "s3://ragab-ml-pdx/validation/",
        },
    }
    deployment = with_an_algorithm()
    (job,) = jobs_of_lines(parse(json.dumps(line).encode(), deployment), deployment, "00000000")
    train, validation = training_job_request("x", job, "arn", {})["InputDataConfig"]
    assert train["ContentType"] == "image/jpeg"
    assert "ContentType" not in validation


def test_a_default_algorithm_receives_the_grids_hyperparameters() -> None:
    job = {"image": "classes", "instance_type": "ml.p3.2xlarge", "hyperparameters": {"num_classes": 10, "epochs": 5}}
    deployment = with_an_algorithm(job=job)
    assert requested(deployment)["HyperParameters"] == {"num_classes": "10", "epochs": "5"}
    assert requested(deployment, hyperparameters={"epochs": 6})["HyperParameters"] == {
        "num_classes": "10",
        "epochs": "6",
    }
    without = with_an_algorithm(job={**job, "hyperparameters": {}})
    assert "sagemaker_mpi_enabled" in requested(without, image="resnet")["HyperParameters"]


def test_the_ranks_of_an_algorithm_are_its_hosts() -> None:
    deployment = with_an_algorithm()
    lines = parse(b"region,s3_uri,image,instance_count\nus-west-2,s3://ragab-ml-pdx/data,classes,2\n", deployment)
    (job,) = jobs_of_lines(lines, deployment, "00000000")
    assert (job.ranks, Job.model_validate_json(job.model_dump_json(exclude_defaults=True))) == (2, job)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"source": "s3://ragab-ml-pdx/a.tar.gz", "entry_point": "a.py"}, "an algorithm has its own program"),
        ({"metrics": {"loss": "loss=(.*)"}}, "an algorithm defines its own metrics"),
    ],
)
def test_settings_that_an_algorithm_does_not_support_are_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        requested(with_an_algorithm(), image="classes", **values)


def test_an_image_must_be_an_alias_or_a_uri() -> None:
    with pytest.raises(KeyError):
        a_deployment().image_uri("nets", "us-west-2")


@pytest.mark.parametrize("alias", ["resnet", "pushed"])
def test_jobs_with_our_own_image_receive_a_tensorboard_path(alias: str) -> None:
    deployment = a_deployment(job={**sample_deployment().grid.job.model_dump(), "image": alias})
    (line,) = parse(b"us-west-2,s3://ragab-ml-pdx/data\n", deployment)
    (job,) = jobs_of_lines([line], deployment, "00000000")
    assert job.tensorboard


@pytest.mark.parametrize(
    "uri",
    [
        "763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.19-gpu",
        "763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training@" + GPU,
        ACCOUNT + ".dkr.ecr.{region}.amazonaws.com/traingrid/training@" + GPU,
        ACCOUNT + ".dkr.ecr.{region}.amazonaws.com/traingrid/own:7",
    ],
)
def test_a_line_may_name_an_image_of_an_allowed_registry(uri: str) -> None:
    allowed = ["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training"]
    found = images(a_deployment(image_registries=allowed), uri)
    assert found == {uri.replace("{region}", region) for region in ("us-west-2", "eu-west-1")}


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("763104351884.dkr.ecr.{region}.amazonaws.com/pytorch-training:2.4", "does not allow the image's registry"),
        (
            "763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training-evil:1",
            "does not allow the image's registry",
        ),
        ("999999999999.dkr.ecr.{region}.amazonaws.com/tensorflow-training:1", "does not allow the image's registry"),
        (ACCOUNT + ".dkr.ecr.{region}.amazonaws.com/other/training:1", "does not allow the image's registry"),
        (ACCOUNT + ".dkr.ecr.{region}.amazonaws.com/traingrid-other/training:1", "does not allow the image's registry"),
        ("docker.io/library/python:3.11", "does not allow the image's registry"),
        (
            ACCOUNT + ".dkr.ecr.eu-north-1.amazonaws.com/traingrid/training:1",
            "SageMaker pulls only from its own Region",
        ),
    ],
)
def test_a_line_may_not_name_other_images(uri: str, why: str) -> None:
    allowed = ["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training"]
    with pytest.raises(ManifestError, match=why):
        images(a_deployment(image_registries=allowed), uri)


def variables(deployment: Deployment, built: dict[str, str] | None) -> dict[str, str]:
    environment = {
        "TRAINGRID_GRID": deployment.grid.to_environment(),
        "TRAINGRID_ACCOUNT": ACCOUNT,
        "TRAINGRID_TABLE": "ledger",
        "TRAINGRID_MANIFEST_BUCKET": "manifests",
    }
    return environment if built is None else {**environment, "TRAINGRID_IMAGES": json.dumps(built)}


def test_the_environment_lists_the_built_images() -> None:
    deployment = a_deployment()
    assert Deployment.from_environment(variables(deployment, BUILT)).image_uri("resnet", "us-west-2") == (
        f"{HERE}/training@{GPU}"
    )


@pytest.mark.parametrize("built", [None, {}, {"cpu": BUILT["cpu"]}])
def test_an_environment_without_the_built_images_is_refused(built: dict[str, str] | None) -> None:
    with pytest.raises(UsageError, match=r"no image for (cpu, )?gpu") as refused:
        Deployment.from_environment(variables(a_deployment(), built))
    assert "npx cdk deploy" in refused.value.next_step


def test_a_grid_that_builds_nothing_needs_no_digests() -> None:
    sample = sample_deployment()
    assert Deployment.from_environment(variables(sample, None)).images == {}


def test_all_variables_fit_into_a_functions_environment() -> None:
    """Lambda's limit is 4 KB for all variables; grid.yaml may use 3,000 bytes of it."""
    long = {"JOB_QUEUE": "x" * 200, "JOB_DEFINITION": "x" * 200, "MANIFEST_BUCKET": "x" * 63, "TABLE": "x" * 255}
    named = {f"TRAINGRID_{name}": value for name, value in long.items()} | {"TRAINGRID_ACCOUNT": ACCOUNT}
    named["TRAINGRID_IMAGES"] = json.dumps({key: f"built-{key}-{'f' * 20}@{GPU}" for key in ("cpu", "gpu")})
    assert sum(len(name) + len(value) for name, value in named.items()) < 4096 - 3000 - len("TRAINGRID_GRID")
