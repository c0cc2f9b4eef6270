"""Launchers of lines: the ranks that they start, and the hyperparameters that select them in a container."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.backends.sagemaker.request import training_job_request
from traingrid.grid.framework_images import FrameworkImage
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job
from traingrid.job.recipe import recipe_of
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

SOURCE: dict[str, Any] = {"source": "s3://ragab-ml/sourcedir.tar.gz", "entry_point": "train.py"}
TORCH = {"torch": {"build": "training", "target": "torch"}}
PROGRAM = {"sagemaker_submit_directory": SOURCE["source"], "sagemaker_program": "train.py"}


def job_of(defaults: Any = None, images: Any = None, **fields: Any) -> Job:
    """Return the job of a line, in a grid with these defaults in `job`, and these images that it has built."""
    deployment = sample_deployment()
    grid = deployment.grid.model_dump(mode="json", exclude_defaults=True)
    grid["job"] |= defaults or {}
    grid["images"] |= images or {}
    built = {image["target"]: f"built-1@sha256:{'a' * 64}" for image in (images or {}).values()}
    deployment = replace(deployment, grid=GridSettings.model_validate(grid), images={**deployment.images, **built})
    line = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", **fields}
    (job,) = jobs_of_lines(parse([json.dumps(line).encode() + b"\n"], deployment), deployment, "0123abcd")
    return job


def hyperparameters(job: Job) -> dict[str, str]:
    found: dict[str, str] = training_job_request("x", job, "role", {})["HyperParameters"]
    return {name: value for name, value in found.items() if name.startswith("sagemaker_")}


def test_mpi_is_the_default_and_its_request_is_unchanged() -> None:
    job = job_of(**SOURCE, processes_per_host=4, mpi_options="-x A=1")
    assert hyperparameters(job) == PROGRAM | {
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": "4",
        "sagemaker_mpi_custom_mpi_options": "-x A=1",
    }
    assert "launcher" not in json.loads(job.model_dump_json(exclude_defaults=True))


def test_torchrun_has_the_toolkits_names_and_none_of_mpi_that_would_take_precedence() -> None:
    job = job_of(**SOURCE, launcher="torchrun", instance_count=2, processes_per_host=4)
    assert hyperparameters(job) == PROGRAM | {
        "sagemaker_torch_distributed_enabled": "true",
        "sagemaker_instance_type": job.instance_type,
        "sagemaker_mpi_num_of_processes_per_host": "4",
    }
    assert job.ranks == 8


def test_a_framework_container_gets_the_same_hyperparameters() -> None:
    deployment = sample_deployment()
    grid = deployment.grid.model_dump(mode="json", exclude_defaults=True)
    grid["images"]["pytorch"] = {"framework": "pytorch", "version": "2.8", "target": "gpu"}
    known = FrameworkImage(image="pytorch-training:2.8-gpu", registry="1" * 12)
    deployment = replace(deployment, grid=GridSettings.model_validate(grid), frameworks={"pytorch": known})
    line = SOURCE | {"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "image": "pytorch", "launcher": "torchrun"}
    (job,) = jobs_of_lines(parse([json.dumps(line).encode() + b"\n"], deployment), deployment, "0123abcd")
    assert job.image == "111111111111.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8-gpu"
    assert hyperparameters(job) == PROGRAM | {
        "sagemaker_torch_distributed_enabled": "true",
        "sagemaker_instance_type": "ml.p3.16xlarge",
        "sagemaker_mpi_num_of_processes_per_host": "8",
    }


def test_none_runs_a_program_once_on_each_host_whatever_the_grids_processes() -> None:
    job = job_of({"processes_per_host": 8}, **SOURCE, launcher="none", instance_count=3)
    assert hyperparameters(job) == PROGRAM | {"sagemaker_launcher": "none"}
    assert (job.ranks, job.processes_per_host) == (3, 1)


def test_a_grid_may_have_another_default() -> None:
    assert job_of({"launcher": "torchrun"}, **SOURCE).launcher == "torchrun"
    assert job_of({"launcher": "torchrun"}, **SOURCE, launcher="mpi").launcher == "mpi"


def test_a_grids_launcher_that_cannot_start_its_trainer_is_reported_on_the_line() -> None:
    with pytest.raises(ManifestError) as raised:
        job_of({"launcher": "torchrun"}, images={"cpu": {"build": "training", "target": "cpu"}}, image="cpu")
    (error,) = raised.value.errors
    assert (error.field, error.value) == ("launcher", "'torchrun'")
    assert error.next_step == (
        "Write launcher mpi, an image with target: torch, or source and entry_point with a script."
    )


@pytest.mark.parametrize("line", [{}, SOURCE, SOURCE | {"launcher": "mpi"}])
def test_the_pytorch_image_is_refused_with_mpi(line: dict[str, str]) -> None:
    with pytest.raises(ManifestError) as raised:
        job_of(images=TORCH, image="torch", **line)
    (error,) = raised.value.errors
    assert (error.field, error.reason) == (
        "launcher",
        "the image with target: torch has neither MPI nor Horovod",
    )
    assert error.next_step.startswith("Write launcher torchrun")


@pytest.mark.parametrize("line", [{}, SOURCE])
def test_the_pytorch_image_trains_scripts_and_its_own_recipe_with_torchrun(line: dict[str, str]) -> None:
    job = job_of(images=TORCH, image="torch", **line, launcher="torchrun", hyperparameters={"epochs": 3})
    assert job.hyperparameters["epochs"] == "3"
    assert hyperparameters(job) == (PROGRAM if line else {}) | {
        "sagemaker_instance_type": job.instance_type,
        "sagemaker_mpi_num_of_processes_per_host": "8",
        "sagemaker_torch_distributed_enabled": "true",
    }


def test_the_own_recipe_is_refused_without_a_launcher() -> None:
    with pytest.raises(ManifestError) as raised:
        job_of(images=TORCH, image="torch", launcher="none")
    (error,) = raised.value.errors
    assert error.next_step == (
        "Write launcher mpi, with target: torch torchrun, or source and entry_point with a script."
    )


def test_the_own_recipe_is_refused_with_hyperparameters_of_tensorflow() -> None:
    with pytest.raises(ManifestError) as raised:
        job_of(images=TORCH, image="torch", launcher="torchrun", hyperparameters={"xla": True})
    (error,) = raised.value.errors
    assert error.field == "hyperparameters.xla"
    assert error.reason == "is one of the trainer for TensorFlow, but this image has the trainer for PyTorch"


def test_a_default_of_the_other_trainer_names_grid_yaml() -> None:
    grid = {"hyperparameters": {"cache": True, "epochs": 3}}
    with pytest.raises(ManifestError) as raised:
        job_of(grid, images=TORCH, image="torch", launcher="torchrun")
    (error,) = raised.value.errors
    assert error.field == "hyperparameters.cache"
    assert error.next_step.startswith("It is from `job` in grid.yaml; correct it there")


def test_a_script_gets_only_the_hyperparameters_of_its_line() -> None:
    grid = {"hyperparameters": {"model": "resnet50", "epochs": 90}}
    assert job_of(grid, **SOURCE, hyperparameters={"lr": 0.1}).hyperparameters == {"lr": "0.1"}
    assert job_of(grid, hyperparameters={"epochs": 3}).hyperparameters == {"model": "resnet50", "epochs": "3"}


def test_hyperparameters_of_a_launcher_count_towards_the_limit() -> None:
    many = {f"p{number}": number for number in range(97)}
    assert job_of(**SOURCE, launcher="none", hyperparameters=many).launcher == "none"
    with pytest.raises(ManifestError, match="at most 100"):
        job_of(**SOURCE, launcher="torchrun", hyperparameters=many)


def test_only_launchers_other_than_mpi_change_a_recipe() -> None:
    job = job_of(**SOURCE)
    assert recipe_of(job) != recipe_of(job.model_copy(update={"launcher": "torchrun"}))
