"""Sabotage: disables one safeguard in a child or a function, to prove that the experiments detect its absence.

A child reads the safeguard from its environment. The code of a deployed function is changed.
"""

import inspect
import io
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

VARIABLE = "FAULTS_SABOTAGE"
"""Environment variable with the name of the safeguard that a child must disable."""


def _conditional_write() -> None:
    """Make every write to the ledger unconditional."""
    from traingrid.aws import dynamodb  # noqa: PLC0415 - only in the child that is sabotaged

    def unconditional(table: Any, operation: str, request: dict[str, Any]) -> bool:
        plain = {name: value for name, value in request.items() if name != "ConditionExpression"}
        for placeholders in ("ExpressionAttributeNames", "ExpressionAttributeValues") if "Key" in plain else ():
            used = {word.strip(",()") for word in plain["UpdateExpression"].split()}  # DynamoDB refuses unused ones
            plain[placeholders] = {name: value for name, value in plain[placeholders].items() if name in used}
        getattr(table._dynamodb, operation)(TableName=table._name, **plain)
        return True

    dynamodb.Table._write_conditionally = unconditional  # type: ignore[method-assign, assignment]  # the sabotage


def _attach() -> None:
    """Skip the check for an existing training job; a taken name then fails the line."""
    from traingrid.backends.base import LaunchError  # noqa: PLC0415  # as above
    from traingrid.backends.sagemaker.backend import SageMaker  # noqa: PLC0415  # as above
    from traingrid.job.failures import INVALID_REQUEST  # noqa: PLC0415  # as above

    def start(self: SageMaker, name: str, job: Any, tags: dict[str, str]) -> None:
        try:
            self._jobs.client.create_training_job(**self._creation.request(name, job, tags))
        except ClientError as error:
            raise LaunchError(INVALID_REQUEST, str(error)) from error

    SageMaker.start = start  # type: ignore[method-assign]  # the sabotage

    from traingrid.backends.eks.backend import Eks  # noqa: PLC0415  # as above

    def start_on_eks(self: Eks, name: str, job: Any, tags: dict[str, str]) -> None:
        if not self._create(self._training_object(name, job, tags)):
            raise LaunchError(INVALID_REQUEST, f"{name} is taken")

    Eks.start = start_on_eks  # type: ignore[method-assign]  # the sabotage


def _check_after_create() -> None:
    """Skip the check for a cancel after the training job was created."""
    from traingrid.backends.sagemaker.backend import SageMaker  # noqa: PLC0415  # as above
    from traingrid.child.attempt import Attempt  # noqa: PLC0415  # as above

    start, cancelled, requested = SageMaker.start, Attempt.is_cancelled, list[str]()

    def noted(self: SageMaker, name: str, job: Any, tags: dict[str, str]) -> Any:
        requested.append(name)
        return start(self, name, job, tags)

    SageMaker.start = noted  # type: ignore[method-assign]  # only observed

    from traingrid.backends.eks.backend import Eks  # noqa: PLC0415  # as above

    start_on_eks = Eks.start

    def noted_on_eks(self: Eks, name: str, job: Any, tags: dict[str, str]) -> Any:
        requested.append(name)
        return start_on_eks(self, name, job, tags)

    Eks.start = noted_on_eks  # type: ignore[method-assign]  # only observed
    Attempt.is_cancelled = lambda self: self.name not in requested and cancelled(self)  # type: ignore[method-assign]  # the sabotage


def _second_look() -> None:
    """Skip the look at the line after a record was refused."""
    from traingrid.child.attempt import Attempt  # noqa: PLC0415  # as above

    Attempt.is_over = lambda self: False  # type: ignore[method-assign]  # noqa: ARG005  # the sabotage


def _finalizer() -> None:
    """Create objects in clusters without a finalizer."""
    from traingrid.kubernetes.client import Client  # noqa: PLC0415  # as above

    create = Client.create

    def without(self: Client, kind: Any, new: Any) -> Any:
        new["metadata"].pop("finalizers", None)
        return create(self, kind, new)

    Client.create = without  # type: ignore[method-assign]  # the sabotage


def _no_pods_left() -> None:
    """Take a deleted object for a training job that has ended, also while its pods run."""
    from traingrid.backends.eks.cluster_job import ClusterJob  # noqa: PLC0415  # as above

    ClusterJob.pods_left = property(lambda _: [])  # type: ignore[method-assign, assignment]  # the sabotage


def _array_size() -> None:
    """Skip the check that a by-hand manifest fits the size of its array."""
    from traingrid.child import by_hand  # noqa: PLC0415  # as above

    by_hand._check_size = lambda *_: None


def _look_by_name() -> None:
    """Skip the check whether Batch already has an array with the submission's name."""
    from traingrid.aws.batch import Batch  # noqa: PLC0415  # as above

    Batch.find = lambda *_: None  # type: ignore[method-assign]  # the sabotage


def _write_once() -> None:
    """Write the manifest of a rule also if it exists, as a new version."""
    from traingrid.aws.s3 import Storage  # noqa: PLC0415  # as above

    Storage.write_if_none = Storage.write  # type: ignore[assignment, method-assign]  # the sabotage


def _running_jobs() -> None:
    """Leave running training jobs out of the dollars of a submission."""
    from traingrid.reconciler import budgets  # noqa: PLC0415  # as above

    budgets.running_dollars = lambda *_: 0.0  # type: ignore[attr-defined]  # the sabotage


def _verified_copy() -> None:
    """Train on a folder as soon as it has an object, without verifying that the copy is complete."""
    from traingrid.child.data_copy import DataCopy  # noqa: PLC0415  # as above

    run = DataCopy.run

    def unverified(self: DataCopy) -> bool:
        objects, _ = self.folders.target_store.page(self.folders.target)
        return bool(objects) or run(self)

    DataCopy.run = unverified  # type: ignore[method-assign]  # the sabotage


SAFEGUARDS: dict[str, Callable[[], None]] = {
    "conditional write": _conditional_write,
    "attach": _attach,
    "check after create": _check_after_create,
    "second look": _second_look,
    "array size": _array_size,
    "verified copy": _verified_copy,
    "finalizer": _finalizer,
    "no pods left": _no_pods_left,
}


@dataclass(frozen=True, kw_only=True)
class InFunction:
    """A safeguard of a function.

    Attributes:
        handler: The file of the function's handler.
        output: The output of the control stack with the function's name.
    """

    disable: Callable[[], None]
    handler: str
    output: str


SAFEGUARDS_OF_FUNCTIONS: dict[str, InFunction] = {
    "look by name": InFunction(disable=_look_by_name, handler="lambda/accept_manifest.py", output="IntakeFunction"),
    "write once": InFunction(disable=_write_once, handler="lambda/register_dataset.py", output="RegisterFunction"),
    "running jobs": InFunction(disable=_running_jobs, handler="lambda/reconcile.py", output="ReconcileFunction"),
}


def code_without(safeguard: InFunction, code: bytes) -> bytes:
    """Return a function's code with a statement appended that disables a safeguard.

    Args:
        code: The deployed archive.
    """
    sabotage, changed = safeguard.disable, io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(code)) as deployed, zipfile.ZipFile(changed, "w") as archive:
        for item in deployed.infolist():
            content = deployed.read(item)
            if item.filename == safeguard.handler:
                content += f"\n\n{inspect.getsource(sabotage)}\n\n{sabotage.__name__}()\n".encode()
            archive.writestr(item, content)
    return changed.getvalue()


def apply() -> None:
    """Disable the safeguard that this process's environment names, if any."""
    safeguard = os.environ.get(VARIABLE)
    if safeguard:
        SAFEGUARDS[safeguard]()
