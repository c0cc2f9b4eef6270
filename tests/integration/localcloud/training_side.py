"""Training jobs in one Region of a localcloud, for tests."""

import io
import itertools
import tarfile
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.localcloud.compute import image, role, wait_until

_numbers = itertools.count()
READ = "import json, os, sys; B = os.environ['SAGEMAKER_BASE_DIR'];"


class SageMaker:
    """Creates, runs and describes training jobs in one Region."""

    def __init__(self, client: Callable[..., Any], region: str = "us-east-1") -> None:
        self.region = region
        self.api, self.ecr = client("sagemaker", region), client("ecr", region)
        self.s3, self.logs = client("s3", region), client("logs", region)
        self.role = role(client("iam"), "training-role", "sagemaker.amazonaws.com")
        self.bucket = f"bucket-{region}-{next(_numbers)}"
        where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        self.s3.create_bucket(Bucket=self.bucket, **where)
        self.put("data/a", "A")
        self.put("data/b/c", "C")

    def put(self, key: str, text: str) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=text.encode())

    def request(self, code: str = "pass", hosts: int = 1, **more: Any) -> dict[str, Any]:
        number = next(_numbers)
        return {
            "TrainingJobName": f"job-{number}",
            "AlgorithmSpecification": {
                "TrainingImage": image(self.ecr, f"image-{number}", code, "train"),
                "TrainingInputMode": "File",
            },
            "RoleArn": self.role,
            "InputDataConfig": [self.channel()],
            "OutputDataConfig": {"S3OutputPath": f"s3://{self.bucket}/out"},
            "ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": hosts, "VolumeSizeInGB": 5},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        } | more

    def channel(self, name: str = "train", uri: str | None = None, **source: Any) -> dict[str, Any]:
        place = {"S3DataType": "S3Prefix", "S3Uri": uri or f"s3://{self.bucket}/data"} | source
        return {"ChannelName": name, "DataSource": {"S3DataSource": place}}

    def create(self, code: str = "pass", hosts: int = 1, **more: Any) -> str:
        request = self.request(code, hosts, **more)
        self.api.create_training_job(**request)
        return str(request["TrainingJobName"])

    def run(self, code: str = "pass", hosts: int = 1, **more: Any) -> dict[str, Any]:
        return self.ended(self.create(code, hosts, **more))

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.api.describe_training_job(TrainingJobName=name))

    def ended(self, name: str) -> dict[str, Any]:
        return wait_until(
            lambda: ((job := self.job(name))["TrainingJobStatus"] in ("Completed", "Failed", "Stopped") and job) or {}
        )

    def lines(self, job: dict[str, Any], host: int = 1) -> list[str]:
        group = "/aws/sagemaker/TrainingJobs"
        prefix = f"{job['TrainingJobName']}/algo-{host}-"
        (stream,) = self.logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=prefix)["logStreams"]
        answer = self.logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True)
        return [event["message"] for event in answer["events"]]

    def waiting(self, code: str, **more: Any) -> str:
        """Start a job, and return its name after its container has printed the first line."""
        name = self.create(code, **more)
        wait_until(lambda: self.job(name)["SecondaryStatus"] == "Training")
        wait_until(lambda: self.lines(self.job(name)))
        return name

    def archive(self, name: str, file: str) -> list[str]:
        body = self.s3.get_object(Bucket=self.bucket, Key=f"out/{name}/output/{file}")["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(body)) as tar:
            return sorted(member.name for member in tar if member.isfile())


def refusal(sagemaker: SageMaker, request: dict[str, Any]) -> str:
    with pytest.raises(ClientError) as error:
        sagemaker.api.create_training_job(**request)
    assert error.value.response["Error"]["Code"] == "ValidationException"
    return str(error.value.response["Error"]["Message"])
