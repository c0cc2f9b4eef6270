"""Metric variables: the regular expressions reach the training image within SageMaker's limits."""

import pytest
from botocore.loaders import Loader

from tests.unit.backends.sagemaker.test_request_isolation import SCRIPT, deployment, request
from tests.unit.manifest.test_channel_checks import NAME, OUTPUT, request_of
from tests.unit.manifest.test_forms import job_of
from traingrid.backends.sagemaker import metric_variables
from traingrid.job.job import Job, job_in_region
from traingrid.job.metrics import metric_regex
from training_container.metric_history.settings import PREFIX, Settings


def settings_of(job: Job) -> Settings | None:
    return Settings.from_environment(request_of(job).get("Environment", {}))


def test_the_image_reads_the_metrics_and_the_destination_of_an_attempt() -> None:
    job = job_of(metrics=["loss", "top1"], environment={"SEED": 7})
    settings = settings_of(job)
    assert settings is not None
    assert settings.uri == f"{OUTPUT}metrics/{NAME}/"
    assert settings.metrics == {name: metric_regex(name) for name in ("loss", "top1")}
    assert request_of(job)["Environment"]["SEED"] == "7"


def test_the_destination_is_in_the_jobs_region() -> None:
    settings = settings_of(job_in_region(job_of(replicas={"eu-west-1": "s3://ragab-ml-dub/x"}), "eu-west-1"))
    assert settings is not None
    assert settings.bucket == "traingrid-output-123456789012-eu-west-1"


def test_the_limits_are_those_of_the_service_model() -> None:
    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    assert shapes["TrainingEnvironmentMap"]["max"] == metric_variables.MAX_VARIABLES
    assert shapes["TrainingEnvironmentValue"]["max"] == metric_variables.MAX_CHARACTERS
    assert metric_variables.PREFIX == PREFIX


def test_the_most_and_longest_expressions_arrive_complete() -> None:
    metrics = {f"metric_{number}": 'é\\"(.)'.ljust(500, "x") for number in range(40)}
    job = job_of(metrics=metrics)
    environment = request_of(job)["Environment"]
    assert len(environment) <= 100
    assert max(map(len, environment.values())) == 512
    settings = settings_of(job)
    assert settings is not None
    assert settings.metrics == metrics


@pytest.mark.parametrize("variables", [97, 98, 99])
def test_a_job_whose_variables_leave_no_room_has_no_history(variables: int) -> None:
    job = job_of(metrics=["loss"], environment={f"V{number}": "x" for number in range(variables)})
    environment = request_of(job)["Environment"]
    assert len(environment) == (100 if variables == 97 else variables + 1)
    assert (Settings.from_environment(environment) is None) == (variables > 97)


def test_jobs_with_other_images_or_algorithms_and_jobs_of_earlier_versions_have_no_history() -> None:
    other = job_of(image="763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu")
    previous = job_of().model_copy(update={"metric_history": False})
    assert [settings_of(job) for job in (other, job_of(algorithm="forest"), previous)] == [None, None, None]


def test_an_isolated_job_has_no_history() -> None:
    with_network, without = request(deployment({}), SCRIPT), request(deployment({"network_isolation": True}), SCRIPT)
    assert Settings.from_environment(with_network["Environment"]) is not None
    assert Settings.from_environment(without.get("Environment", {})) is None
