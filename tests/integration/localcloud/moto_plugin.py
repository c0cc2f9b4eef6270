"""pytest plugin: runs moto's own tests against a localcloud, a new one for each test.

docs/decisions/localcloud.md contains the commands and the results. moto's decorator `mock_aws` starts the localcloud.
With LOCALCLOUD_ADAPT=1, the plugin adds values that moto does not check to the requests (an existing image, role and
data), and CreateStack returns after the stack has been created.
"""

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import ContextDecorator, ExitStack
from pathlib import Path
from typing import Any, Self

import boto3
import moto
import pytest

from localcloud.credentials.environments import user_environment
from localcloud.ecr import process_images
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings

_REGIONS = ("us-east-1", "eu-central-1")
_ACCOUNT = "123456789012"
_IMAGE = f"{_ACCOUNT}.dkr.ecr.{{}}.amazonaws.com/runs:v1"
_ROLE = "runs"
_running: list["MockAws"] = []


class MockAws(ContextDecorator):
    """Replaces `mock_aws`: runs a localcloud while the outermost instance is active."""

    def __init__(self) -> None:
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        _running.append(self)
        if len(_running) == 1:
            folder = self._resources.enter_context(tempfile.TemporaryDirectory())
            cloud = LocalCloud(Settings(data_dir=Path(folder), batch_stop_grace_seconds=1.0))
            self._resources.enter_context(cloud)
            patch = self._resources.enter_context(pytest.MonkeyPatch.context())
            for name, value in user_environment(cloud.endpoint_url).items():
                patch.setenv(name, value)
            patch.setattr(boto3, "DEFAULT_SESSION", None)
            boto3.setup_default_session()
            if os.environ.get("LOCALCLOUD_ADAPT"):
                _adapt()
        return self

    def __exit__(self, *_: object) -> None:
        _running.remove(self)
        self._resources.close()

    start = __enter__

    def stop(self) -> None:
        """Stop it, for tests that start moto explicitly."""
        self.__exit__()


def mock_aws(function: Callable[..., Any] | None = None, **_: object) -> Any:
    """Decorate a test, or return a context manager that starts a localcloud; moto's configuration is ignored."""
    return MockAws()(function) if function else MockAws()


moto.mock_aws = mock_aws


def _adapt() -> None:
    """Create an image that runs a job's command, and a role, and add them to the default session's requests."""
    for region in _REGIONS:
        ecr = boto3.client("ecr", region)
        ecr.create_repository(repositoryName="runs")
        process_images.push(ecr, "runs", "v1", process_images.ProcessImage(command=("/usr/bin/env",)))
    allow = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "sagemaker.amazonaws.com"}}
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    iam = boto3.client("iam")
    iam.create_role(RoleName=_ROLE, AssumeRolePolicyDocument=_document(allow))
    iam.put_role_policy(RoleName=_ROLE, PolicyName="everything", PolicyDocument=_document(everything))
    events = boto3.DEFAULT_SESSION.events  # type: ignore[union-attr] # it has just been set up
    events.register("provide-client-params.batch.RegisterJobDefinition", _with_image)
    events.register("provide-client-params.sagemaker.CreateTrainingJob", _with_data)
    events.register("after-call.cloudformation.CreateStack", _created)


def _document(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _with_image(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    if "image" in params.get("containerProperties", {}):
        params["containerProperties"]["image"] = _IMAGE.format(context["client_region"])


def _with_data(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    params["RoleArn"] = f"arn:aws:iam::{_ACCOUNT}:role/{_ROLE}"
    params["AlgorithmSpecification"] |= {"TrainingImage": _IMAGE.format(context["client_region"])}
    s3 = boto3.client("s3", "us-east-1")
    for channel in params.get("InputDataConfig", []):
        bucket, _, prefix = channel["DataSource"]["S3DataSource"]["S3Uri"].removeprefix("s3://").partition("/")
        s3.create_bucket(Bucket=bucket)  # in us-east-1, an existing bucket is not an error
        s3.put_object(Bucket=bucket, Key=f"{prefix.rstrip('/')}/data", Body=b"data")


def _created(parsed: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    if "StackId" in parsed:
        waiter = boto3.client("cloudformation", context["client_region"]).get_waiter("stack_create_complete")
        waiter.wait(StackName=parsed["StackId"], WaiterConfig={"Delay": 1})
