"""Contract: the template of docs/backends.md and the backends of SageMaker meet the rules of every backend.

tests/integration/eks/test_contract.py checks the same rules with a cluster.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.support.backend_contract import LOG_RULES, NAME, RULES, Rule, ServiceInTest
from tests.support.sagemaker_service import FakeSageMaker
from tests.support.sample_deployment import sample_deployment
from tests.support.sample_job import sample_job
from tests.support.service_queue import FakeQueue, FakeTraining
from tests.support.template_backend.backend import TemplateBackend
from tests.support.template_backend.inventory import TemplateInventory
from tests.support.template_backend.jobs import MemoryService
from tests.support.template_backend.log import TemplateLogs
from traingrid.backends.queued.backend import Queued
from traingrid.backends.queued.inventory import QueuedInventory
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.backends.sagemaker.log import SageMakerLogs
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.state import JobState

REGION = "us-east-1"
LOST = ReadTimeoutError(endpoint_url="https://service.us-east-1.amazonaws.com")


@contextmanager
def changed(service: object, **attributes: Any) -> Iterator[None]:
    """Change attributes of a service for a while."""
    before = {name: getattr(service, name) for name in attributes}
    for name, value in attributes.items():
        setattr(service, name, value)
    yield
    for name, value in before.items():
        setattr(service, name, value)


def template() -> ServiceInTest:
    service, deployment = MemoryService(), sample_deployment()
    return ServiceInTest(
        backend=TemplateBackend(deployment, REGION, service),
        inventory=TemplateInventory(deployment, REGION, service),
        logs=TemplateLogs(service),
        job=sample_job(REGION),
        without_replies=lambda: changed(service, loses_replies=True),
        complete=lambda: setattr(service.jobs[NAME], "state", JobState.COMPLETED),
        write=lambda line: service.write(NAME, line),
    )


class FakeLogs:
    """CloudWatch Logs with one stream, whose tokens are numbers of lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def get_paginator(self, _operation: str) -> "FakeLogs":
        return self

    def paginate(self, **_request: Any) -> list[dict[str, Any]]:
        return [{"logStreams": [{"logStreamName": f"{NAME}/algo-1-1700000000"}]}]

    def get_log_events(self, nextToken: str = "0", **_request: Any) -> dict[str, Any]:  # noqa: N803  # AWS's name
        events = [{"timestamp": 0, "message": line} for line in self.lines[int(nextToken) :]]
        return {"events": events, "nextForwardToken": str(len(self.lines))}


def sagemaker() -> ServiceInTest:
    service, logs, deployment = FakeSageMaker(), FakeLogs(), sample_deployment()

    def make(name: str, *_: Any) -> Any:
        return logs if name == "logs" else service

    return ServiceInTest(
        backend=SageMaker(deployment, REGION, make, make),
        inventory=SageMakerInventory(deployment, REGION, make),
        logs=SageMakerLogs(deployment, REGION, make),
        job=sample_job(REGION),
        without_replies=lambda: changed(service, error=LOST, creates_before_error=True),
        complete=lambda: service.status.update(TrainingJobStatus="Completed", SecondaryStatus="Completed"),
        write=logs.lines.append,
    )


def with_queue() -> Deployment:
    deployment = sample_deployment()
    settings = deployment.grid.model_dump(exclude_defaults=True)
    settings["regions"][REGION]["service_queue"] = {"instances": 4}
    return replace(deployment, grid=GridSettings.model_validate(settings))


def queued() -> ServiceInTest:
    queue, training, deployment = FakeQueue(), FakeTraining(), with_queue()

    def make(name: str, *_: Any) -> Any:
        return queue if name == "batch" else training

    def complete() -> None:
        training.put(f"AWSBatch{NAME}-of-batch", "Completed", "Completed")
        queue.becomes(f"AWSBatch{NAME}-of-batch", "SUCCEEDED")

    return ServiceInTest(
        backend=Queued(deployment, REGION, make, make),
        inventory=QueuedInventory(deployment, REGION, deployment.grid.service_queue(REGION), make),
        logs=SageMakerLogs(deployment, REGION, make),
        job=sample_job(REGION).model_copy(update={"launch": "queued"}),
        without_replies=lambda: changed(queue, error=LOST),
        complete=complete,
        write=lambda _line: None,
    )


Services = Callable[[], ServiceInTest]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("service", [template, sagemaker, queued], ids=lambda service: service.__name__)
def test_a_backend_meets_the_rule(service: Services, rule: Rule) -> None:
    rule(service())


@pytest.mark.parametrize("rule", LOG_RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("service", [template, sagemaker], ids=lambda service: service.__name__)
def test_a_log_meets_the_rule(service: Services, rule: Rule) -> None:
    rule(service())
