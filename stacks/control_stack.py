"""The home Region: from a manifest in S3 to Batch children that train, and the ledger that knows what came of it."""

from dataclasses import replace
from pathlib import Path

from aws_cdk import Aws, CfnOutput, Environment, Stack
from constructs import Construct

from stacks import child_permissions, intake_permissions, watcher_permissions
from stacks.buckets import private_bucket, send_object_events
from stacks.event_function import Runtime, libraries, repository_code
from stacks.images_stack import ImagesStack
from stacks.job_events import JobEvents
from stacks.ledger import Ledger
from stacks.manifest_intake import ManifestIntake
from stacks.orchestrator import Orchestrator
from stacks.reconciler import Reconciler
from stacks.retention import log_retention
from traingrid import names
from traingrid.grid import Grid


class ControlStack(Stack):
    """Manifest bucket, intake, Batch, ledger and home bus. All that its parts may do to each other is granted here."""

    def __init__(
        self, scope: Construct, *, grid: Grid, layer: Path, images: ImagesStack, frameworks: str = "{}"
    ) -> None:
        super().__init__(
            scope,
            names.control_stack(grid.name),
            env=Environment(region=grid.home),
            description=f"traingrid {grid.name}: control plane",
        )
        self._grid, self._images, self._frameworks = grid, images, frameworks
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
            image=images.orchestrator_image,
            image_tag=images.orchestrator_tag,
            environment=runtime.environment,
            log_retention=runtime.log_retention,
        )
        to_submit = replace(runtime, environment={**runtime.environment, **self._where_to_submit()})
        self.intake = ManifestIntake(self, "Intake", bucket=self.manifests, runtime=to_submit)
        self.job_events = JobEvents(self, "JobEvents", grid=grid, runtime=runtime)
        self.reconciler = Reconciler(self, "Reconciler", runtime=to_submit)
        self._grant()
        self._outputs()

    def _environment(self) -> dict[str, str]:
        """Return what every process of the grid is told."""
        return {
            "TRAINGRID_GRID": self._grid.to_environment(),
            "TRAINGRID_ACCOUNT": Aws.ACCOUNT_ID,
            "TRAINGRID_TABLE": self.ledger.table_name,
            "TRAINGRID_MANIFEST_BUCKET": self.manifests.bucket_name,
            "TRAINGRID_IMAGES": self._images.training_images,
            "TRAINGRID_FRAMEWORKS": self._frameworks,
        }

    def _where_to_submit(self) -> dict[str, str]:
        """Return what the intake is told beside that. A submission keeps the revision that it was submitted with."""
        return {
            "TRAINGRID_JOB_QUEUE": self.orchestrator.queue.job_queue_arn,
            "TRAINGRID_JOB_DEFINITION": self.orchestrator.definition.job_definition_arn,
        }

    def _grant(self) -> None:
        """Allow each part what it does, and no more."""
        grid, bucket, ledger = self._grid, self.manifests, self.ledger
        intake_permissions.let_accept(self.intake.role, bucket, ledger)
        intake_permissions.let_submit(self.intake.role, grid, self.orchestrator)
        child_permissions.let_read_its_line(self.orchestrator.role, bucket, ledger)
        child_permissions.let_train(self.orchestrator.role, grid)
        watcher_permissions.let_record_events(self.job_events.role, grid, ledger)
        watcher_permissions.let_close_lines(self.reconciler.role, bucket, ledger)
        watcher_permissions.let_see_and_stop(self.reconciler.role, grid)

    def _outputs(self) -> None:
        CfnOutput(self, "ManifestBucket", value=self.manifests.bucket_name)
        CfnOutput(self, "LedgerTable", value=self.ledger.table_name)
        CfnOutput(self, "JobQueue", value=self.orchestrator.queue.job_queue_arn)
        CfnOutput(self, "JobDefinition", value=self.orchestrator.definition.job_definition_arn)
        CfnOutput(self, "IntakeFunction", value=self.intake.function.function_name)
        CfnOutput(self, "IntakeDeadLetterQueue", value=self.intake.dead_letters.queue_url)
        CfnOutput(self, "ReconcileFunction", value=self.reconciler.function.function_name)
        CfnOutput(self, "LogGroup", value=self.orchestrator.log_group.log_group_name)
