"""SageMaker training jobs that run the programs in `conformance/programs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from conformance.resources.identity import allow, role
from conformance.resources.storage import image, shared_bucket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.aws import Aws
    from conformance.resources.identity import Statement

PROGRAMS = Path(__file__).parent.parent / "programs"
LOG_GROUP = "/aws/sagemaker/TrainingJobs"
INSTANCE_TYPE = "ml.m5.large"
FINAL = ("Completed", "Failed", "Stopped")
MAX_MINUTES = 10
# A container argument is limited to 256 characters (TrainingContainerEntrypointString), so the program is input data.
# SageMaker's own training toolkit reads SAGEMAKER_BASE_DIR instead of /opt/ml.
_START = (
    "import os, runpy; base = os.environ.get('SAGEMAKER_BASE_DIR', '/opt/ml');"
    "runpy.run_path(base + '/input/data/program/main.py', run_name='__main__')"
)


class Training:
    """SageMaker in one Region, with a role, a bucket and an image."""

    def __init__(self, aws: Aws, region: str) -> None:
        self.aws, self.region = aws, region
        self.api, self.logs, self.s3 = (aws.client(service, region) for service in ("sagemaker", "logs", "s3"))
        self.bucket = shared_bucket(aws, region)
        self.image = image(aws, region)
        self.role = aws.once("role/training", lambda: execution_role(aws))
        for program in PROGRAMS.glob("*.py"):
            self.put(f"program/{program.stem}/main.py", program.read_text())
        self.put("data/a", "A")
        self.put("data/b/c", "C")
        self.put("flat/train-0", "T")
        self.put("flat/validation-0", "V")

    @classmethod
    def of(cls, aws: Aws, region: str = "") -> Training:
        """Return the instance for a Region, which claims share."""
        region = region or aws.home
        return aws.once(f"training/{region}", lambda: cls(aws, region))

    def put(self, key: str, text: str) -> None:
        """Write an object into the bucket."""
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=text.encode())

    def channel(self, name: str, prefix: str, mode: str = "File", **source: str) -> dict[str, Any]:
        """Return a channel with the bucket's objects under a prefix."""
        place = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{self.bucket}/{prefix}"} | source
        return {"ChannelName": name, "InputMode": mode, "DataSource": {"S3DataSource": place}}

    def request(self, program: str = "nothing", hosts: int = 1, **more: Any) -> dict[str, Any]:
        """Return a request for a training job that runs a program on some hosts; `more` replaces members."""
        return {
            "TrainingJobName": self.aws.name(program.replace("_", "-")),
            "AlgorithmSpecification": {
                "TrainingImage": self.image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["python", "-c", _START],
            },
            "RoleArn": self.role,
            "InputDataConfig": [self.channel("program", f"program/{program}/")],
            "OutputDataConfig": {"S3OutputPath": f"s3://{self.bucket}/out"},
            "ResourceConfig": {"InstanceType": INSTANCE_TYPE, "InstanceCount": hosts, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": MAX_MINUTES * 60},
            "Tags": self.aws.tags(),
        } | more

    def create(self, request: Mapping[str, Any]) -> str:
        """Create a training job and return its name; at the end of the run it is stopped if it has not ended."""
        name = str(request["TrainingJobName"])
        self.aws.undo.later(f"training job {name} in {self.region}", lambda: self._stop_and_wait(name))
        self.api.create_training_job(**request)
        return name

    def start(self, program: str = "nothing", hosts: int = 1, **more: Any) -> str:
        """Create a training job that runs a program; return its name."""
        return self.create(self.request(program, hosts, **more))

    def running(self, program: str) -> str:
        """Create a training job, wait until its program has logged "running", and return the job's name."""
        name = self.start(program)
        self.aws.wait(lambda: "running" in self.lines(name), "the first line of the log")
        return name

    def _stop_and_wait(self, name: str) -> None:
        try:
            self.api.stop_training_job(TrainingJobName=name)
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("ValidationException", "ResourceNotFound"):
                raise  # with these two codes, the job has ended or was never created

    def describe(self, name: str) -> dict[str, Any]:
        """Return the reply of DescribeTrainingJob."""
        return dict(self.api.describe_training_job(TrainingJobName=name))

    def reached(self, name: str, *statuses: str) -> dict[str, Any]:
        """Wait until a training job has one of these statuses, primary or secondary; return its description."""

        def found() -> dict[str, Any]:
            job = self.describe(name)
            return job if {job["TrainingJobStatus"], job["SecondaryStatus"]} & set(statuses) else {}

        return self.aws.wait(found, f"{name} to become {' or '.join(statuses)}")

    def ended(self, name: str) -> dict[str, Any]:
        """Wait for the end of a training job; return its description."""
        return self.reached(name, *FINAL)

    def run(self, program: str, hosts: int = 1, **more: Any) -> dict[str, Any]:
        """Run a training job to its end; return its description."""
        return self.ended(self.start(program, hosts, **more))

    def streams(self, name: str) -> list[str]:
        """Return the names of a training job's log streams."""
        try:
            reply = self.logs.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=f"{name}/")
        except self.logs.exceptions.ResourceNotFoundException:
            return []  # the first training job of the account in this Region creates the log group
        return sorted(stream["logStreamName"] for stream in reply["logStreams"])

    def lines(self, name: str) -> list[str]:
        """Return the lines that all hosts have logged so far."""
        pages = (
            self.logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True)
            for stream in self.streams(name)
        )
        return [event["message"].rstrip("\n") for page in pages for event in page["events"]]

    def report(self, name: str, hosts: int = 1) -> list[dict[str, Any]]:
        """Return the reports that `observe.py` has printed on each host, in the order of the hosts."""

        def found() -> list[dict[str, Any]]:
            reports = [json.loads(line[7:]) for line in self.lines(name) if line.startswith("REPORT ")]
            return reports if len(reports) == hosts else []

        return sorted(self.aws.wait(found, f"the log of {name}"), key=lambda report: str(report["host"]))

    def specimen(self) -> dict[str, Any]:
        """Return the description of a completed training job on one host, which claims share."""
        return self.aws.once(f"specimen/{self.region}", self._specimen)

    def _specimen(self) -> dict[str, Any]:
        request = self.request("observe", HyperParameters={"lr": "0.1"}, Environment={"MINE": "1"})
        specification = request["AlgorithmSpecification"]
        specification["MetricDefinitions"] = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
        request["InputDataConfig"] += [
            self.channel("file", "data/"),
            self.channel("fast", "data/", "FastFile"),
            self.channel("pipe", "data/", "Pipe"),
            self.channel("prefix", "flat/train-"),
        ]
        return self.ended(self.create(request))

    def cluster(self) -> dict[str, Any]:
        """Return the description of a completed training job on two hosts, which claims share."""
        return self.aws.once(f"cluster/{self.region}", self._cluster)

    def _cluster(self) -> dict[str, Any]:
        self.put("list", json.dumps([{"prefix": f"s3://{self.bucket}/data/"}, "b/c"]))
        request = self.request("observe", hosts=2)
        request["InputDataConfig"] += [
            self.channel("shard", "data/", S3DataDistributionType="ShardedByS3Key"),
            self.channel("listed", "list", S3DataType="ManifestFile"),
        ]
        return self.ended(self.create(request))


def execution_role(aws: Aws) -> str:
    """Create a role that allows training jobs to access the run's buckets, pull its image and write logs."""
    return role(aws, "training", {"Service": "sagemaker.amazonaws.com"}, *execution_permissions(aws))


def execution_permissions(aws: Aws) -> tuple[Statement, ...]:
    """Return the permissions of an execution role."""
    return (
        allow("s3:GetObject s3:PutObject s3:ListBucket", f"arn:aws:s3:::tgc-{aws.run}-*"),
        allow("ecr:GetAuthorizationToken"),
        allow(
            "ecr:BatchCheckLayerAvailability ecr:BatchGetImage ecr:GetDownloadUrlForLayer",
            f"arn:aws:ecr:*:{aws.account}:repository/tgc-{aws.run}-*",
        ),
        allow(
            "logs:CreateLogGroup logs:CreateLogStream logs:PutLogEvents logs:DescribeLogStreams",
            f"arn:aws:logs:*:{aws.account}:log-group:{LOG_GROUP}*",
        ),
        allow("cloudwatch:PutMetricData"),
    )
