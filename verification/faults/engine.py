"""Engine: the service that trains the lines of the fault suite, and the calls by which children use it."""

from dataclasses import dataclass
from typing import Literal

from traingrid.job.backend_traits import BackendName
from verification.faults.account import INSTANCE_TYPE

EngineName = Literal["sagemaker", "eks"]


@dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine.

    Attributes:
        name: Its name, which is also that of the backend.
        service: The service in a fault plan.
        create: Glob of the action that creates a training job.
        describe: Glob of the action that describes one.
        stop: Glob of the action that stops one.
        log: The service of the actions that read its log.
        instance_type: The instance type of the lines. EC2 has no ml.p3.16xlarge any more for nodes.
    """

    name: BackendName
    service: str
    create: str
    describe: str
    stop: str
    log: str
    instance_type: str


ENGINES: dict[EngineName, Engine] = {
    "sagemaker": Engine(
        name="sagemaker",
        service="sagemaker",
        create="CreateTrainingJob",
        describe="DescribeTrainingJob",
        stop="StopTrainingJob",
        log="logs",
        instance_type=INSTANCE_TYPE,
    ),
    "eks": Engine(
        name="eks",
        service="kubernetes",
        create="create *jobs",
        describe="get *jobs",
        stop="delete *jobs",
        log="kubernetes",
        instance_type="ml.p4d.24xlarge",
    ),
}
