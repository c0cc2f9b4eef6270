"""The home Region: from a manifest in S3 to Batch children that train, and the ledger that knows what came of it."""

from dataclasses import replace
from pathlib import Path

from aws_cdk import Aws, CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.buckets import private_bucket, send_object_events
from stacks.event_function import Runtime, libraries, repository_code
from stacks.grants import grant
from stacks.job_events import JobEvents
from stacks.ledger import Ledger
from stacks.manifest_intake import ManifestIntake
from stacks.orchestrator import Orchestrator
from stacks.reconciler import Reconciler
from stacks.retention import log_retention
from traingrid import names
from traingrid.channels import MANIFEST_FOLDER, MANIFEST_SUFFIX
from traingrid.grid import Grid


class ControlStack(Stack):
    """Manifest bucket, intake, Batch, ledger and home bus. All that its parts may do to each other is granted here."""

    def __init__(self, scope: Construct, *, grid: Grid, layer: Path) -> None:
        super().__init__(
            scope,
            names.control_stack(grid.name),
            env=Environment(region=grid.home),
            description=f"traingrid {grid.name}: control plane",
        )
        self._grid = grid
        name = names.manifest_bucket(grid.name, Aws.ACCOUNT_ID, grid.home)
        self.manifests = private_bucket(self, "Manifests", name=name, versioned=True)
        send_object_events(self.manifests)
        self.ledger = Ledger(self, "Ledger").table
        runtime = Runtime(
            code=repository_code(),
            libraries=libraries(self, layer),
            environment=self._environment(),
            log_retention=log_retention(grid),
        )
        self.orchestrator = Orchestrator(
            self,
            "Orchestrator",
            grid=grid,
            environment=runtime.environment,
            log_retention=runtime.log_retention,
        )
        to_submit = replace(runtime, environment={**runtime.environment, **self._where_to_submit()})
        self.intake = ManifestIntake(self, "Intake", bucket=self.manifests, runtime=to_submit)
        self.job_events = JobEvents(self, "JobEvents", grid=grid, runtime=runtime)
        self.reconciler = Reconciler(self, "Reconciler", runtime=to_submit)
        self._let_intake_accept()
        self._let_intake_submit()
        self._let_children_train()
        self._let_events_reach_the_ledger()
        self._let_reconciler_record()
        self._let_reconciler_see_and_stop()
        self._outputs()

    def _environment(self) -> dict[str, str]:
        """Return what every process of the grid is told."""
        return {
            "TRAINGRID_GRID": self._grid.to_environment(),
            "TRAINGRID_ACCOUNT": Aws.ACCOUNT_ID,
            "TRAINGRID_TABLE": self.ledger.table_name,
            "TRAINGRID_MANIFEST_BUCKET": self.manifests.bucket_name,
        }

    def _where_to_submit(self) -> dict[str, str]:
        """Return what the intake is told beside that. A submission keeps the revision that it was submitted with."""
        return {
            "TRAINGRID_JOB_QUEUE": self.orchestrator.queue.job_queue_arn,
            "TRAINGRID_JOB_DEFINITION": self.orchestrator.definition.job_definition_arn,
        }

    def _let_intake_accept(self) -> None:
        """Allow the intake to read manifests, and to write submissions and reports."""
        role, bucket = self.intake.role, self.manifests.bucket_arn
        grant(
            role,
            ["s3:GetObject", "s3:GetObjectVersion"],
            [f"{bucket}/{names.MANIFEST_PREFIX}*"],
            because="Users choose the names of manifests",
        )
        grant(
            role,
            ["s3:PutObject"],
            [f"{bucket}/{names.SUBMISSION_PREFIX}*", f"{bucket}/{names.MANIFEST_PREFIX}*{names.REPORT_SUFFIX}"],
            because="A report lies next to its manifest; the suffix keeps manifests themselves from being written",
        )
        grant(role, ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [self.ledger.table_arn])

    def _let_intake_submit(self) -> None:
        """Allow the intake to submit to this grid's queue only.

        It can neither register a job definition nor pass a role, so it can run nothing but the orchestrator.
        """
        role, batch = self.intake.role, f"arn:aws:batch:{self.region}:{Aws.ACCOUNT_ID}"
        grant(
            role,
            ["batch:SubmitJob"],
            [
                self.orchestrator.queue.job_queue_arn,
                f"{batch}:job-definition/{names.job_definition(self._grid.name)}:*",
            ],
            because="Every revision of the orchestrator's definition: a deployment makes a new one meanwhile",
        )
        grant(
            role,
            ["batch:TagResource"],
            [f"{batch}:job/*"],
            conditions={"ForAllValues:StringEquals": {"aws:TagKeys": [names.TAG_GRID, names.TAG_SUBMISSION]}},
            because="Batch chooses the ids of jobs; the condition leaves only traingrid's own tags",
        )
        grant(
            role,
            ["batch:ListJobs"],
            ["*"],
            because="The action knows no resource; it finds a submission that was sent before its reply was lost",
        )

    def _let_children_train(self) -> None:
        """Allow a child to read its line, keep its item, and run training jobs of this grid in this grid's Regions."""
        role, bucket = self.orchestrator.role, self.manifests.bucket_arn
        grant(
            role,
            ["s3:GetObject", "s3:GetObjectVersion"],
            [f"{bucket}/{names.SUBMISSION_PREFIX}*", f"{bucket}/{names.BY_HAND_PREFIX}*"],
            because="Any submission, and any manifest that somebody submits in the Batch console",
        )
        items = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]
        grant(role, items, [self.ledger.table_arn])
        jobs, whose = self._training_jobs(), "The jobs of this grid: their names begin with its name, in its Regions"
        grant(
            role,
            ["sagemaker:CreateTrainingJob"],
            jobs,
            conditions={"StringEquals": {f"aws:RequestTag/{names.TAG_GRID}": self._grid.name}},
            because=whose,
        )
        grant(
            role,
            ["sagemaker:AddTags"],
            jobs,
            conditions={"StringEquals": {"sagemaker:TaggingAction": "CreateTrainingJob"}},
            because=whose,
        )
        looks = ["sagemaker:DescribeTrainingJob", "sagemaker:ListTags"]
        grant(role, [*looks, "sagemaker:StopTrainingJob"], jobs, because=whose)
        self._let_write_manifest_files(role)
        self._let_pass_execution_roles(role)
        self._let_read_training_logs(role)

    def _let_write_manifest_files(self, role: iam.Role) -> None:
        """Allow what a stream for each rank takes: to see which objects there are, and to say which rank reads which.

        No data is read. Listing the output buckets tells an object that is missing from one that may not be read.
        """
        grid, account = self._grid, Aws.ACCOUNT_ID
        outputs = [names.output_bucket(grid.name, account, region) for region in grid.regions]
        data = [bucket for region in grid.regions for bucket in grid.data_buckets(account, region)]
        grant(role, ["s3:ListBucket"], [f"arn:aws:s3:::{bucket}" for bucket in (*data, *outputs)])
        grant(
            role,
            ["s3:GetObject", "s3:PutObject"],
            [f"arn:aws:s3:::{bucket}/*/{MANIFEST_FOLDER}/*{MANIFEST_SUFFIX}" for bucket in outputs],
            because="The ManifestFiles of any training job lie below its own output, and nothing else is called so",
        )

    def _let_pass_execution_roles(self, role: iam.Role) -> None:
        """Allow passing exactly one role for each Region, and to SageMaker only."""
        roles = [names.execution_role_arn(self._grid.name, Aws.ACCOUNT_ID, region) for region in self._grid.regions]
        to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
        grant(role, ["iam:PassRole"], roles, conditions=to_sagemaker)

    def _let_read_training_logs(self, role: iam.Role) -> None:
        groups = [
            f"arn:aws:logs:{region}:{Aws.ACCOUNT_ID}:log-group:/aws/sagemaker/TrainingJobs"
            for region in self._grid.regions
        ]
        grant(
            role,
            ["logs:GetLogEvents"],
            [f"{group}:log-stream:{self._grid.name}-*" for group in groups],
            because="The streams of this grid's jobs: SageMaker names them after job and host",
        )
        grant(
            role,
            ["logs:DescribeLogStreams"],
            [f"{group}:*" for group in groups],
            because="The ARN of a log group ends in an asterisk; the action cannot be narrowed to some streams",
        )

    def _let_events_reach_the_ledger(self) -> None:
        """Allow the recorder to see how a job of this grid ended and to write that down; it can start and stop none."""
        role = self.job_events.role
        grant(
            role,
            ["sagemaker:DescribeTrainingJob", "sagemaker:ListTags"],
            self._training_jobs(),
            because="The jobs of this grid: their names begin with its name, in its Regions",
        )
        grant(role, ["dynamodb:UpdateItem"], [self.ledger.table_arn])

    def _let_reconciler_record(self) -> None:
        """Allow the reconciler to read all that the ledger and Batch know, and to close lines."""
        role = self.reconciler.role
        read_and_write = ["dynamodb:Scan", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
        grant(role, read_and_write, [self.ledger.table_arn])
        grant(
            role,
            ["s3:GetObject", "s3:GetObjectVersion"],
            [f"{self.manifests.bucket_arn}/{names.SUBMISSION_PREFIX}*"],
            because="Any submission; their ids are hashes",
        )
        grant(
            role,
            ["batch:DescribeJobs", "batch:ListJobs"],
            ["*"],
            because="The actions know no resource; they show whose child is gone, and which array nobody wrote down",
        )

    def _let_reconciler_see_and_stop(self) -> None:
        """Allow the reconciler to find and to stop training jobs of this grid. It can create none and pass no role."""
        role = self.reconciler.role
        grant(
            role,
            ["sagemaker:ListTrainingJobs"],
            ["*"],
            because="The action knows no resource; what is not of this grid is not looked at",
        )
        grant(
            role,
            ["sagemaker:DescribeTrainingJob", "sagemaker:StopTrainingJob", "sagemaker:ListTags"],
            self._training_jobs(),
            because="The jobs of this grid: their names begin with its name, in its Regions",
        )

    def _training_jobs(self) -> list[str]:
        prefix = f"training-job/{self._grid.name}-*"
        return [f"arn:aws:sagemaker:{region}:{Aws.ACCOUNT_ID}:{prefix}" for region in self._grid.regions]

    def _outputs(self) -> None:
        CfnOutput(self, "ManifestBucket", value=self.manifests.bucket_name)
        CfnOutput(self, "LedgerTable", value=self.ledger.table_name)
        CfnOutput(self, "JobQueue", value=self.orchestrator.queue.job_queue_arn)
        CfnOutput(self, "JobDefinition", value=self.orchestrator.definition.job_definition_arn)
        CfnOutput(self, "IntakeFunction", value=self.intake.function.function_name)
        CfnOutput(self, "IntakeDeadLetterQueue", value=self.intake.dead_letters.queue_url)
        CfnOutput(self, "ReconcileFunction", value=self.reconciler.function.function_name)
        CfnOutput(self, "LogGroup", value=self.orchestrator.log_group.log_group_name)
