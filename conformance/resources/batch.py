"""AWS Batch on Fargate: a queue, and job definitions that run the programs in `conformance/programs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.resources.identity import allow, role
from conformance.resources.storage import image
from conformance.resources.training import PROGRAMS

if TYPE_CHECKING:
    from conformance.aws import Aws

FINAL = ("SUCCEEDED", "FAILED")
PREFIX = "children"


class Batch:
    """A queue in the home Region that uses the subnets of the default VPC."""

    def __init__(self, aws: Aws) -> None:
        self.aws, self.api, self.logs = aws, aws.client("batch"), aws.client("logs")
        self.image, self.group = image(aws), f"/{aws.name('log')}"
        aws.undo.later(f"log group {self.group}", lambda: self.logs.delete_log_group(logGroupName=self.group))
        self.logs.create_log_group(logGroupName=self.group, tags=aws.tag_map)
        self.role = self._start_role()
        self.environment = self._environment()
        self.queue = self.new_queue()

    @classmethod
    def of(cls, aws: Aws) -> Batch:
        """Return the queue that claims share."""
        return aws.once("batch", lambda: cls(aws))

    def _start_role(self) -> str:
        return role(
            self.aws,
            "start",
            {"Service": "ecs-tasks.amazonaws.com"},
            allow("ecr:GetAuthorizationToken"),
            allow("ecr:BatchCheckLayerAvailability ecr:BatchGetImage ecr:GetDownloadUrlForLayer"),
            allow("logs:CreateLogStream logs:PutLogEvents"),
        )

    def _environment(self) -> str:
        ec2, name = self.aws.client("ec2"), self.aws.name("compute")
        subnets = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
        if not subnets:
            message = f"{self.aws.home} has no default VPC: aws ec2 create-default-vpc --region {self.aws.home}"
            raise LookupError(message)
        vpc = {"Name": "vpc-id", "Values": [subnets[0]["VpcId"]]}
        named = {"Name": "group-name", "Values": ["default"]}
        group = ec2.describe_security_groups(Filters=[vpc, named])["SecurityGroups"][0]["GroupId"]
        self.aws.undo.later(f"compute environment {name}", lambda: self._delete_environment(name))
        made = self.api.create_compute_environment(
            computeEnvironmentName=name,
            type="MANAGED",
            computeResources={
                "type": "FARGATE",
                "maxvCpus": 4,
                "subnets": [subnet["SubnetId"] for subnet in subnets],
                "securityGroupIds": [group],
            },
            tags=self.aws.tag_map,
        )
        self.aws.wait(lambda: self._environment_status(name) == "VALID", f"compute environment {name}")
        return str(made["computeEnvironmentArn"])

    def _environment_status(self, name: str) -> str:
        found = self.api.describe_compute_environments(computeEnvironments=[name])["computeEnvironments"]
        return str(found[0]["status"]) if found else "DELETED"

    def _delete_environment(self, name: str) -> None:
        self.api.update_compute_environment(computeEnvironment=name, state="DISABLED")
        self.aws.wait(lambda: self._environment_status(name) == "VALID", f"compute environment {name}")
        self.api.delete_compute_environment(computeEnvironment=name)
        self.aws.wait(lambda: self._environment_status(name) == "DELETED", f"the end of {name}")

    def new_queue(self, policy: str = "") -> str:
        """Create a queue over the shared compute environment and return its ARN."""
        name = self.aws.name("queue")
        self.aws.undo.later(f"job queue {name}", lambda: self._delete_queue(name))
        made = self.api.create_job_queue(
            jobQueueName=name,
            state="ENABLED",
            priority=1,
            computeEnvironmentOrder=[{"order": 1, "computeEnvironment": self.environment}],
            tags=self.aws.tag_map,
            **({"schedulingPolicyArn": policy} if policy else {}),
        )
        self.aws.wait(lambda: self._queue_status(name) == "VALID", f"job queue {name}")
        return str(made["jobQueueArn"])

    def _queue_status(self, name: str) -> str:
        found = self.api.describe_job_queues(jobQueues=[name])["jobQueues"]
        return str(found[0]["status"]) if found else "DELETED"

    def _delete_queue(self, name: str) -> None:
        self.api.update_job_queue(jobQueue=name, state="DISABLED")
        self.aws.wait(lambda: self._queue_status(name) == "VALID", f"job queue {name}")
        self.api.delete_job_queue(jobQueue=name)
        self.aws.wait(lambda: self._queue_status(name) == "DELETED", f"the end of {name}")

    def define(self, program: str, name: str = "", job_role: str = "", **more: Any) -> str:
        """Register a job definition that runs a program, optionally with a job role, and return its ARN."""
        made = self.api.register_job_definition(
            jobDefinitionName=name or self.aws.name(program.replace("_", "-")),
            type="container",
            platformCapabilities=["FARGATE"],
            containerProperties={
                "image": self.image,
                "command": ["python", "-u", "-c", (PROGRAMS / f"{program}.py").read_text()],
                "executionRoleArn": self.role,
                **({"jobRoleArn": job_role} if job_role else {}),
                "resourceRequirements": [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "512"}],
                "networkConfiguration": {"assignPublicIp": "ENABLED"},
                "logConfiguration": {
                    "logDriver": "awslogs",
                    "options": {"awslogs-group": self.group, "awslogs-stream-prefix": PREFIX},
                },
            },
            tags=self.aws.tag_map,
            **more,
        )
        arn = str(made["jobDefinitionArn"])
        self.aws.undo.later(f"definition {arn}", lambda: self.api.deregister_job_definition(jobDefinition=arn))
        return arn

    def submit(self, definition: str, api: Any = None, **more: Any) -> str:
        """Submit a job and return its id; at the end of the run it is terminated if it has not ended."""
        request = {"jobName": self.aws.name("job"), "jobQueue": self.queue, "tags": self.aws.tag_map} | more
        made = (api or self.api).submit_job(jobDefinition=definition, **request)
        job = str(made["jobId"])
        self.aws.undo.later(f"job {job}", lambda: self._end(job))
        return job

    def _end(self, job: str) -> None:
        self.api.terminate_job(jobId=job, reason="the run is over")
        self.aws.wait(lambda: self.job(job)["status"] in FINAL, f"the end of job {job}")

    def job(self, job: str) -> dict[str, Any]:
        """Return a job's description from DescribeJobs."""
        return dict(self.api.describe_jobs(jobs=[job])["jobs"][0])

    def reached(self, job: str, *statuses: str) -> dict[str, Any]:
        """Wait until a job has one of these statuses; return its description."""

        def found() -> dict[str, Any]:
            described = self.job(job)
            return described if described["status"] in statuses else {}

        return self.aws.wait(found, f"job {job} to become {' or '.join(statuses)}")

    def ended(self, job: str) -> dict[str, Any]:
        """Wait for the end of a job; return its description."""
        return self.reached(job, *FINAL)

    def lines(self, job: dict[str, Any]) -> list[str]:
        """Return the lines that a job's last attempt has logged so far."""
        stream = job["container"].get("logStreamName")
        if not stream:
            return []
        reply = self.logs.get_log_events(logGroupName=self.group, logStreamName=stream, startFromHead=True)
        return [event["message"].rstrip("\n") for event in reply["events"]]

    def prints(self, job: str, word: str) -> list[str]:
        """Wait until a job has logged a line that contains a word; return all of its lines."""

        def found() -> list[str]:
            lines = self.lines(self.job(job))
            return lines if any(word in line for line in lines) else []

        return self.aws.wait(found, f"{word!r} in the log of job {job}")

    def array(self) -> dict[str, Any]:
        """Return the description of an ended array of five `child.py` jobs, which claims share.

        Its definition retries as the product's does: after every exit code except 1, 2 and 143.
        """
        return self.aws.once("batch/array", self._array)

    def _array(self) -> dict[str, Any]:
        conditions = [{"onExitCode": code, "action": "EXIT"} for code in ("1", "2", "143")]
        definition = self.define("child", retryStrategy={"attempts": 3, "evaluateOnExit": conditions})
        return self.ended(self.submit(definition, arrayProperties={"size": 5}))

    def child(self, index: int) -> dict[str, Any]:
        """Return the description of a child of the shared array."""
        return self.job(f"{self.array()['jobId']}:{index}")
