"""Taking one safeguard out of a child or of the intake: a suite that cannot fail proves nothing.

A child is told by its environment what it lacks. The intake is a deployed function, and gets other code.
"""

import inspect
import io
import os
import zipfile
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

VARIABLE = "FAULTS_SABOTAGE"
"""Environment variable by which a child is told which safeguard it lacks."""


def _conditional_write() -> None:
    """Every write of the ledger happens, whatever is there."""
    from traingrid import dynamodb  # noqa: PLC0415 - only in the child that is sabotaged

    def unconditional(table: Any, operation: str, request: dict[str, Any]) -> bool:
        plain = {name: value for name, value in request.items() if name != "ConditionExpression"}
        for placeholders in ("ExpressionAttributeNames", "ExpressionAttributeValues") if "Key" in plain else ():
            used = {word.strip(",()") for word in plain["UpdateExpression"].split()}  # DynamoDB refuses unused ones
            plain[placeholders] = {name: value for name, value in plain[placeholders].items() if name in used}
        getattr(table._dynamodb, operation)(TableName=table._name, **plain)
        return True

    dynamodb.Table._unless_condition_failed = unconditional  # type: ignore[method-assign, assignment]


def _attach() -> None:
    """Nobody looks whether the training job is there; a name that is taken fails the line."""
    from traingrid.backends.base import LaunchError  # noqa: PLC0415
    from traingrid.backends.sagemaker import SageMaker  # noqa: PLC0415
    from traingrid.failures import INVALID_REQUEST  # noqa: PLC0415

    def start(self: SageMaker, name: str, job: Any, tags: dict[str, str]) -> None:
        try:
            self._sagemaker.create_training_job(**self._request(name, job, tags))
        except ClientError as error:
            raise LaunchError(INVALID_REQUEST, str(error)) from error

    SageMaker.start = start  # type: ignore[method-assign]


def _check_after_create() -> None:
    """A child does not look again for a cancel once it has asked for its training job."""
    from traingrid.attempt import Attempt  # noqa: PLC0415
    from traingrid.backends.sagemaker import SageMaker  # noqa: PLC0415

    start, cancelled, asked = SageMaker.start, Attempt.cancelled, list[str]()

    def noted(self: SageMaker, name: str, job: Any, tags: dict[str, str]) -> Any:
        asked.append(name)
        return start(self, name, job, tags)

    SageMaker.start = noted  # type: ignore[method-assign]
    Attempt.cancelled = lambda self: self.name not in asked and cancelled(self)  # type: ignore[method-assign]


def _array_size() -> None:
    """A child trains its line of a manifest by hand, whatever the size of its array."""
    from traingrid import child  # noqa: PLC0415

    child._check_size = lambda *_: None


def _look_by_name() -> None:
    """The intake does not look whether Batch has an array of the submission's name already."""
    from traingrid.batch import Batch  # noqa: PLC0415

    Batch.find = lambda *_: None  # type: ignore[method-assign]


SAFEGUARDS: dict[str, Callable[[], None]] = {
    "conditional write": _conditional_write,
    "attach": _attach,
    "check after create": _check_after_create,
    "array size": _array_size,
}

SAFEGUARDS_OF_INTAKE: dict[str, Callable[[], None]] = {"look by name": _look_by_name}

_INTAKE = "lambda/accept_manifest.py"


def code_without(safeguard: str, code: bytes) -> bytes:
    """Return the intake's code with a safeguard taken out at its end.

    Args:
        safeguard: Which of `SAFEGUARDS_OF_INTAKE`.
        code: The archive that is deployed.
    """
    sabotage, changed = SAFEGUARDS_OF_INTAKE[safeguard], io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(code)) as deployed, zipfile.ZipFile(changed, "w") as archive:
        for item in deployed.infolist():
            content = deployed.read(item)
            if item.filename == _INTAKE:
                content += f"\n\n{inspect.getsource(sabotage)}\n\n{sabotage.__name__}()\n".encode()
            archive.writestr(item, content)
    return changed.getvalue()


def apply() -> None:
    """Take the safeguard out of this process that its environment names, if it does."""
    safeguard = os.environ.get(VARIABLE)
    if safeguard:
        SAFEGUARDS[safeguard]()
