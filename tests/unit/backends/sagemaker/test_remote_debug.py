"""Remote debugging: a training job is started with it only if grid.yaml enables it, and never for algorithms."""

from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters
from pydantic import ValidationError

from tests.support.sample_deployment import sample_deployment
from tests.support.sample_job import sample_job
from traingrid.backends.sagemaker.request import confined, fingerprint, training_job_request
from traingrid.grid.model import GridSettings
from traingrid.grid.region import Region
from traingrid.grid.training import Training

ROLE = "arn:aws:iam::123456789012:role/traingrid-training-us-east-1"


def request(training: Training, **fields: Any) -> dict[str, Any]:
    job = sample_job("us-east-1", 0).model_copy(update=fields)
    return confined(training_job_request("traingrid-0123abcd-0-1", job, ROLE, {}), training, Region())


def test_it_is_off_by_default() -> None:
    assert Training().remote_debug is False
    assert "RemoteDebugConfig" not in request(Training())


def test_it_is_requested_if_the_grid_enables_it() -> None:
    asked = request(Training(remote_debug=True))
    assert asked["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    validate_parameters(asked, shape)


@pytest.mark.parametrize("fields", [{"built_in": True}, {"algorithm": "ours", "image": ""}])
def test_algorithms_are_started_without_it(fields: dict[str, Any]) -> None:
    assert "RemoteDebugConfig" not in request(Training(remote_debug=True), **fields)


def test_the_fingerprint_of_a_job_does_not_depend_on_it() -> None:
    assert fingerprint(request(Training(remote_debug=True))) == fingerprint(request(Training()))


def test_it_is_refused_together_with_network_isolation() -> None:
    described = {
        **sample_deployment().grid.model_dump(mode="json"),
        "training": {"remote_debug": True, "network_isolation": True},
    }
    with pytest.raises(ValidationError, match="a container with network_isolation cannot be debugged"):
        GridSettings.model_validate(described)
