"""Account: a grid of two Regions, created within a second by API calls, without the CDK and TensorFlow.

Children and trainings are tiny processes, so that a test controls which steps each completes before it dies.
"""

import itertools
from contextlib import suppress
from typing import Any

from localcloud.ecr import process_images
from tests.integration.localcloud.compute import ACCOUNT, EXECUTION_ROLE, image, role, wait_until
from tests.support.ledger_items import job_key
from tests.support.sample_job import sample_job
from traingrid import names
from traingrid.audit.read_snapshot import read_world
from traingrid.audit.snapshot import World
from traingrid.aws.batch import Batch
from traingrid.aws.clients import client
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.backends.sagemaker.request import fingerprint
from traingrid.grid.deployment import Deployment
from traingrid.grid.framework_images import to_environment
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job
from traingrid.job.ownership import tags_of
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.facts import SubmissionFacts
from traingrid.ledger.items import JobItem
from traingrid.ledger.ledger import Ledger
from traingrid.reconciler.reconciler import Reconciler
from traingrid.submission.batch_children import Children
from traingrid.submission.files import jobs_key, normalised
from traingrid.submission.intake import Intake, ManifestVersion
from verification.checkout.images import ORCHESTRATOR

HOME, OTHER = REGIONS = ("us-east-1", "eu-west-1")
FOR_GOOD = [{"onExitCode": code, "action": "EXIT"} for code in ("1", "2", "143")]
WAITS = "import time; time.sleep(600)"
TRAINS = (
    "import json, os, time; base = os.environ['SAGEMAKER_BASE_DIR'];"
    "time.sleep(float(json.load(open(base + '/input/config/hyperparameters.json'))['seconds']))"
)


class Account:
    """The grid and the operations of tests in it. The AWS environment must point at a running localcloud."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.deployment = self._deployment()
        home = self.deployment.grid.home
        self.ledger, self.storage = Ledger(self.deployment.table, home), Storage(home)
        self.children = Children(self.storage, self.deployment.manifest_bucket, home)
        self.batch: Any = client("batch", home)
        self._table()
        self._buckets()
        self._queue()
        self.execution_roles = {
            region: role(client("iam"), names.execution_role("traingrid", region), "sagemaker.amazonaws.com")
            for region in REGIONS
        }
        self.training = {region: image(client("ecr", region), "traingrid/training", TRAINS) for region in REGIONS}

    def submit(self, regions: tuple[str, ...], code: str = WAITS, *, opened: bool = True, recorded: bool = True) -> str:
        """Submit a line for each Region, whose children all run `code`, and return the submission id."""
        submission, jobs = self._claim(regions)
        array = self.run(f"traingrid-{submission}", code, len(jobs))
        if recorded:
            self.ledger.record_submitted(submission, array)
        for job in jobs if opened else ():
            self.ledger.open_job(submission, job, REGIONS)
        return submission

    def record(self, regions: tuple[str, ...]) -> str:
        """Record a submission of a line for each Region, which its children have opened; none of them runs."""
        submission, jobs = self._claim(regions)
        self.ledger.record_submitted(submission, f"array-{submission}")
        for job in jobs:
            self.ledger.open_job(submission, job, REGIONS)
        return submission

    def _claim(self, regions: tuple[str, ...]) -> tuple[str, list[Job]]:
        submission = f"{next(self._numbers):08x}"
        jobs = [sample_job(region, index) for index, region in enumerate(regions)]
        body, index = normalised(jobs)
        bucket = self.deployment.manifest_bucket
        for key, content in ((jobs_key(submission), body), (jobs_key(submission)[:-6] + ".index", index)):
            self.storage.write(S3Uri(bucket, key), content, "application/x")
        facts: SubmissionFacts = {
            "manifest": f"s3://{bucket}/manifests/{submission}.csv",
            "version": "1",
            "jobs": len(jobs),
        }
        self.ledger.claim_submission(submission, "test", facts)
        return submission, jobs

    def accept(self, manifest: str) -> str:
        """Submit a manifest through the intake, to children that run the orchestrator; return the submission id."""
        self._orchestrator()
        uri = S3Uri(self.deployment.manifest_bucket, f"manifests/{next(self._numbers)}.csv")
        version = self.storage.write(uri, manifest.encode(), "text/csv")
        home = self.deployment.grid.home
        intake = Intake(
            deployment=self.deployment,
            storage=self.storage,
            ledger=self.ledger,
            batch=Batch(self.deployment, home),
        )
        report = intake.accept(ManifestVersion(uri=uri, version=version), owner="test")
        assert report["state"] == "submitted", report
        return str(report["submission"])

    def _orchestrator(self) -> None:
        """Register the orchestrator's job definition once, and upload the data of the manifests' lines."""
        name = self.deployment.job_definition
        if self.batch.describe_job_definitions(jobDefinitionName=name)["jobDefinitions"]:
            return
        for region in REGIONS:
            s3 = client("s3", region)
            where: Any = {} if region == HOME else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
                s3.create_bucket(Bucket=names.output_bucket("traingrid", ACCOUNT, region), **where)
            s3.put_object(Bucket=self.data(region), Key="x/train/a", Body=b"a")
            s3.put_object(Bucket=self.data(region), Key="x/validation/a", Body=b"a")
        ecr = client("ecr", HOME)
        with suppress(ecr.exceptions.RepositoryAlreadyExistsException):
            ecr.create_repository(repositoryName="traingrid/orchestrator")
        process_images.push(ecr, "traingrid/orchestrator", "1", ORCHESTRATOR)
        environment = {
            "TRAINGRID_GRID": self.deployment.grid.to_environment(),
            "TRAINGRID_ACCOUNT": ACCOUNT,
            "TRAINGRID_TABLE": self.deployment.table,
            "TRAINGRID_MANIFEST_BUCKET": self.deployment.manifest_bucket,
            "TRAINGRID_FRAMEWORKS": to_environment(self.deployment.frameworks),
        }
        self.batch.register_job_definition(
            jobDefinitionName=name,
            type="container",
            platformCapabilities=["FARGATE"],
            retryStrategy={"attempts": 10, "evaluateOnExit": FOR_GOOD},
            containerProperties={
                "image": f"{ACCOUNT}.dkr.ecr.{HOME}.amazonaws.com/traingrid/orchestrator:1",
                "jobRoleArn": self.child_role,
                "executionRoleArn": EXECUTION_ROLE,
                "resourceRequirements": [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "512"}],
                "environment": [{"name": name, "value": value} for name, value in environment.items()],
            },
        )

    def run(self, name: str, code: str, size: int) -> str:
        """Submit an array of children that run `code`, or a plain job, and return its id."""
        number = next(self._numbers)
        uri = image(client("ecr", HOME), f"child-{number}", code)
        definition = self.batch.register_job_definition(
            jobDefinitionName=f"child-{number}",
            type="container",
            platformCapabilities=["FARGATE"],
            containerProperties={
                "image": uri,
                "jobRoleArn": self.child_role,
                "executionRoleArn": EXECUTION_ROLE,
                "resourceRequirements": [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "512"}],
            },
        )["jobDefinitionArn"]
        more = {"arrayProperties": {"size": size}} if size > 1 else {}
        request = {"jobName": name, "jobQueue": self.deployment.job_queue, "jobDefinition": definition, **more}
        return str(self.batch.submit_job(**request)["jobId"])

    def data(self, region: str) -> str:
        return names.data_bucket("traingrid", ACCOUNT, region)

    def train(
        self,
        submission: str,
        index: int,
        *,
        attempt: int = 1,
        region: str = HOME,
        seconds: float = 600,
        ours: bool = True,
    ) -> str:
        """Claim an attempt and create its training job, as a child does; return the name once it trains."""
        name = names.training_job("traingrid", submission, index, attempt)
        request: dict[str, Any] = {
            "TrainingJobName": name,
            "AlgorithmSpecification": {"TrainingImage": self.training[region], "TrainingInputMode": "File"},
            "HyperParameters": {"seconds": str(seconds)},
            "RoleArn": self.execution_roles[region],
            "OutputDataConfig": {"S3OutputPath": f"s3://{self.data(region)}/out"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 5},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        }
        if ours:
            asked = fingerprint(request)
            tags = tags_of("traingrid", submission, index, asked)
            request["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
            self.ledger.record_job(job_key(index, attempt, submission=submission), {"fingerprint": asked})
        client("sagemaker", region).create_training_job(**request)
        wait_until(
            lambda: self.described(name, region)["SecondaryStatus"] not in ("Starting", "Downloading", "Pending")
        )
        return name

    def described(self, name: str, region: str = HOME) -> dict[str, Any]:
        return dict(client("sagemaker", region).describe_training_job(TrainingJobName=name))

    def ended(self, name: str, region: str = HOME) -> str:
        """Wait until a training job has ended, and return its final status."""
        wait_until(lambda: self.described(name, region)["TrainingJobStatus"] in FINAL_STATES)
        return str(self.described(name, region)["TrainingJobStatus"])

    def line(self, submission: str, index: int) -> JobItem:
        item = self.ledger.job(submission, index)
        assert item is not None
        return item

    def child(self, submission: str, index: int) -> str:
        """Return Batch's status of a line's child."""
        head = self.ledger.submission(submission)
        assert head is not None
        return self.children.of(head, {index: self.ledger.job(submission, index)})[index].status

    def reconciler(self, grace_seconds: float = 0) -> Reconciler:
        return Reconciler.of(self.deployment, grace_seconds)

    def world(self, submission: str, *, at_rest: bool = False) -> World:
        return read_world(self.deployment, submission=submission, details=True, at_rest=at_rest)

    def _deployment(self) -> Deployment:
        grid = GridSettings.model_validate(
            {
                "name": "traingrid",
                "home": HOME,
                "regions": dict.fromkeys(REGIONS),
                "moves": True,
                "images": {"resnet": {"repository": "training", "tag": "v1"}},
                "job": {"image": "resnet", "instance_type": "ml.m5.large"},
            }
        )
        return Deployment(
            grid=grid,
            account=ACCOUNT,
            table="ledger",
            manifest_bucket=names.manifest_bucket("traingrid", ACCOUNT, HOME),
            job_queue="traingrid",
            job_definition="traingrid-orchestrator",
        )

    def empty_ledger(self) -> None:
        """Replace the ledger's table by an empty one."""
        client("dynamodb", HOME).delete_table(TableName=self.deployment.table)
        self._table()

    def _table(self) -> None:
        keys = {"submission": "HASH", "item": "RANGE"}
        client("dynamodb", HOME).create_table(
            TableName=self.deployment.table,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        )

    def _buckets(self) -> None:
        s3 = client("s3", HOME)
        s3.create_bucket(Bucket=self.deployment.manifest_bucket)
        s3.put_bucket_versioning(Bucket=self.deployment.manifest_bucket, VersioningConfiguration={"Status": "Enabled"})
        for region in REGIONS:
            where = {} if region == HOME else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            client("s3", region).create_bucket(Bucket=self.data(region), **where)

    def _queue(self) -> None:
        self.child_role = role(client("iam"), "child", "ecs-tasks.amazonaws.com")
        ec2 = client("ec2", HOME)
        environment = self.batch.create_compute_environment(
            computeEnvironmentName="traingrid",
            type="MANAGED",
            serviceRole=self.child_role,
            computeResources={
                "type": "FARGATE",
                "maxvCpus": 16,
                "subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
                "securityGroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
            },
        )["computeEnvironmentArn"]
        self.batch.create_job_queue(
            jobQueueName="traingrid",
            state="ENABLED",
            priority=1,
            computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
        )
