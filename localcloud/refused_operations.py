"""Refused operations: those that moto 5.2.5 accepts without doing the work that a caller waits for.

moto records such a job, or answers with a placeholder, and the caller cannot see that nothing ran. Operations that only
record something, such as a model or a pipeline's definition, stay moto's.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore import xform_name
from moto.sagemaker.responses import SageMakerResponse
from moto.sagemakerruntime.responses import SageMakerRuntimeResponse

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

REFUSED: Mapping[type, tuple[str, ...]] = {
    SageMakerResponse: (
        *("CreateAutoMLJobV2", "CreateCluster", "CreateCompilationJob", "CreateEndpoint"),
        *("CreateHyperParameterTuningJob", "CreateNotebookInstance", "CreateProcessingJob", "CreateTransformJob"),
        *("StartNotebookInstance", "StartPipelineExecution"),
    ),
    SageMakerRuntimeResponse: ("InvokeEndpoint", "InvokeEndpointAsync"),
}
"""The operations by moto's handler of their service."""


def install(cloud: "LocalCloud") -> None:
    """Refuse the operations like those that moto lacks."""
    for handler, operations in REFUSED.items():
        cloud.replace(handler, **{xform_name(operation): _refusal_of(operation) for operation in operations})


def _refusal_of(operation: str) -> Callable[..., Any]:
    def refuse(_: object) -> None:
        text = f"The operation {operation}, which moto accepts and does not run, has not been implemented"
        raise NotImplementedError(text)

    return refuse
