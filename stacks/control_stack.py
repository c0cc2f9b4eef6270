"""Control stack: the home Region, from a manifest in S3 to Batch children, and the ledger of their results."""

from dataclasses import replace
from pathlib import Path

from aws_cdk import Aws, CfnOutput, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct

from stacks import child_permissions, intake_permissions, queue_permissions, watcher_permissions
from stacks.accounts import home_environment, let_act_elsewhere
from stacks.alarms import Alarms
from stacks.buckets import private_bucket, send_object_events
from stacks.budget import budget
from stacks.builds_stack import BuildsStack
from stacks.catalog_cluster import CatalogCluster
from stacks.catalog_follower import CatalogFollower, allow_copying_ledger
from stacks.dashboard import Dashboard
from stacks.dataset_registration import DatasetRegistration, let_read_datasets, let_register
from stacks.eks_access import let_find_clusters
from stacks.event_function import Runtime, libraries, repository_code
from stacks.grants import skip_in_checkov
from stacks.home_event_bus import JobEvents
from stacks.keys import stack_key, use_key, use_keys_of_regions
from stacks.ledger import Ledger
from stacks.log_keeping import log_keeping
from stacks.manifest_intake import ManifestIntake
from stacks.network import zones
from stacks.notification_topic import NotificationTopic, let_publish
from stacks.orchestrator import Orchestrator
from stacks.reconciler import Reconciler
from stacks.region_guard import RegionGuard, let_look
from stacks.saved_queries import saved_queries
from traingrid import names
from traingrid.grid.catalog import DSQL_CATALOG
from traingrid.grid.model import GridSettings


class ControlStack(Stack):
    """The manifest bucket, intake, Batch, ledger and home event bus, with the permissions of each part."""

    def __init__(
        self, scope: Construct, *, grid: GridSettings, layer: Path, images: BuildsStack, frameworks: str = "{}"
    ) -> None:
        super().__init__(
            scope,
            names.control_stack(grid.name),
            env=home_environment(grid),
            description=f"traingrid {grid.name}: control plane",
        )
        self._grid, self._images, self._frameworks = grid, images, frameworks
        self._key = stack_key(self, "ControlKey", grid=grid, region=grid.home, alias=names.control_key(grid.name))
        name = names.manifest_bucket(grid.name, Aws.ACCOUNT_ID, grid.home)
        self.manifests = private_bucket(self, "Manifests", name=name, versioned=True, key=self._key)
        send_object_events(self.manifests)
        ledger = Ledger(self, "Ledger", grid=grid, key=self._key)
        self.ledger, self.ledger_stream = ledger.table, ledger.stream
        runtime = self._runtime(layer)
        self.guard = RegionGuard(self, "Guard", grid=grid, runtime=runtime)
        self.orchestrator = Orchestrator(
            self,
            "Orchestrator",
            grid=grid,
            image=images.orchestrator_image,
            image_tag=images.orchestrator_tag,
            environment={**runtime.environment, **self._image_of_pods()},
            keeping=runtime.keeping,
        )
        to_submit = replace(runtime, environment={**runtime.environment, **self._where_to_submit()})
        self.intake = ManifestIntake(self, "Intake", bucket=self.manifests, runtime=to_submit)
        self.job_events = JobEvents(self, "JobEvents", grid=grid, runtime=runtime)
        self.notifications = self._notifications()
        self.reconciler = Reconciler(self, "Reconciler", grid=grid, runtime=self._runtime_of_passes(to_submit))
        with_rules = {**runtime.environment, "TRAINGRID_GRID": grid.to_environment(rules=True)}
        self.datasets = DatasetRegistration(
            self, "Datasets", grid=grid, bus=self.job_events.bus, runtime=replace(runtime, environment=with_rules)
        )
        self.guard.before(self.orchestrator, self.intake, self.job_events, self.reconciler, self.datasets)
        self.follower = self._follower(runtime, layer) if grid.catalog == DSQL_CATALOG else None
        self._grant()
        self._watch()
        ledger.create_after(*self._before_the_ledger(ledger))
        self._outputs()

    @property
    def availability_zones(self) -> list[str]:
        """The zones of grid.yaml, or two of the Region. For a named account, the CDK would look their names up."""
        return zones(self._grid)

    def _before_the_ledger(self, ledger: Ledger) -> list[IConstruct]:
        """Return all parts except the ledger and the key. The table already waits for the key, because it names it."""
        with_alias = self._key.node.children if self._key else []
        named_by_table = self._key.node.default_child if self._key else None
        parts = [*self.node.children, *with_alias]
        return [part for part in parts if part not in (ledger, self._key, named_by_table)]

    def _follower(self, runtime: Runtime, layer: Path) -> CatalogFollower:
        """Return the function that keeps the catalog up to date, with the catalog's cluster."""
        cluster = CatalogCluster(self, "Catalog")
        parts = [part for part in self.node.children if part not in (cluster, self._key)]
        cluster.create_after(*(part for part in parts if not isinstance(part, Ledger)))
        CfnOutput(self, "CatalogEndpoint", value=cluster.endpoint)
        follower = CatalogFollower(
            self, "CatalogFollower", grid=self._grid, cluster=cluster, layer=layer, runtime=runtime
        )
        allow_copying_ledger(follower.role, self.manifests, self.ledger, cluster)
        return follower

    def _notifications(self) -> NotificationTopic | None:
        """Return the topic of notifications, if the grid has them."""
        if self._grid.notifications is None:
            return None
        emails = self._grid.notifications.emails
        topic = NotificationTopic(self, "Notifications", grid=self._grid.name, emails=emails, key=self._key)
        CfnOutput(self, "NotificationTopic", value=topic.topic.topic_arn)
        return topic

    def _runtime_of_passes(self, runtime: Runtime) -> Runtime:
        """Return a runtime whose functions know the topic of notifications, in the network that grid.yaml chooses."""
        topic = {"TRAINGRID_TOPIC": self.notifications.topic.topic_arn} if self.notifications else {}
        placement = self.orchestrator.placement if self._grid.network.reconciler else None
        return replace(runtime, environment={**runtime.environment, **topic}, placement=placement)

    def _runtime(self, layer: Path) -> Runtime:
        return Runtime(
            code=repository_code(),
            libraries=libraries(self, layer),
            environment=self._environment(),
            keeping=log_keeping(self._grid, self._key),
            key=self._key,
        )

    def _environment(self) -> dict[str, str]:
        """Return the environment variables of all processes of the grid."""
        return {
            "TRAINGRID_GRID": self._grid.to_environment(),
            "TRAINGRID_ACCOUNT": Aws.ACCOUNT_ID,
            "TRAINGRID_TABLE": self.ledger.table_name,
            "TRAINGRID_MANIFEST_BUCKET": self.manifests.bucket_name,
            "TRAINGRID_IMAGES": self._images.training_images,
            "TRAINGRID_FRAMEWORKS": self._frameworks,
        }

    def _image_of_pods(self) -> dict[str, str]:
        """Return the variable of the image that provides the folders of a training container in pods."""
        return {"TRAINGRID_POD_IMAGE": self._images.orchestrator_image} if self._grid.with_clusters() else {}

    def _where_to_submit(self) -> dict[str, str]:
        """Return the variables for SubmitJob. A submission keeps the job definition revision that it began with."""
        return {
            "TRAINGRID_JOB_QUEUE": self.orchestrator.queue.job_queue_arn,
            "TRAINGRID_JOB_DEFINITION": self.orchestrator.definition.job_definition_arn,
        }

    def _grant(self) -> None:
        """Grant each part the permissions that it needs."""
        grid, bucket, ledger = self._grid, self.manifests, self.ledger
        intake_permissions.let_accept(self.intake.role, bucket, ledger)
        intake_permissions.let_submit(self.intake.role, grid, self.orchestrator)
        child_permissions.let_read_its_line(self.orchestrator.role, bucket, ledger)
        child_permissions.let_train(self.orchestrator.role, grid, grid.at_home())
        child_permissions.let_copy_data(self.orchestrator.role, grid)
        child_permissions.let_copy_checkpoints(self.orchestrator.role, grid)
        let_act_elsewhere(self.orchestrator.role, grid, "launch")
        watcher_permissions.let_see(self.job_events.role, grid, grid.at_home())
        watcher_permissions.let_record_events(self.job_events.role, ledger)
        let_act_elsewhere(self.job_events.role, grid, "record")
        watcher_permissions.let_close_lines(self.reconciler.role, bucket, ledger)
        watcher_permissions.let_see_and_stop(self.reconciler.role, grid, grid.at_home())
        let_act_elsewhere(self.reconciler.role, grid, "sweep")
        if self.notifications:
            let_publish(self.reconciler.role, self.notifications, self._key, region=grid.home)
        for role in (self.orchestrator.role, self.reconciler.role, self.guard.role):
            let_find_clusters(role, grid, grid.at_home())
        let_register(self.datasets.role, grid, bucket, ledger)
        let_read_datasets(self.datasets.role, grid, grid.at_home())
        let_act_elsewhere(self.datasets.role, grid, "register")
        let_look(self.guard.role, grid, bucket, ledger)
        queue_permissions.let_list_queued(self.guard.role, grid)
        queue_permissions.let_queue(self.orchestrator.role, grid)
        queue_permissions.let_see_queued(self.job_events.role, grid)
        queue_permissions.let_see_queued(self.reconciler.role, grid)
        queue_permissions.let_end_queued(self.reconciler.role, grid)
        self._let_decrypt()
        if self._grid.account:
            self._acknowledge_accounts()

    def _let_decrypt(self) -> None:
        """Allow each part to use the keys of the data it reads and writes, and of a function's dead letters."""
        functions = (self.intake, self.job_events, self.reconciler, self.datasets, self.guard)
        for role in (function.role for function in functions):
            use_key(role, self._key, region=self._grid.home, services=["s3", "dynamodb", "sqs"])
        use_key(self.orchestrator.role, self._key, region=self._grid.home, services=["s3", "dynamodb"])
        use_keys_of_regions(self.orchestrator.role, self._grid)

    def _functions(self) -> list[lambda_.Function]:
        parts = (self.intake, self.job_events, self.reconciler, self.datasets, self.guard)
        followers = [self.follower.function] if self.follower else []
        return [*(part.function for part in parts), *followers]

    def _acknowledge_accounts(self) -> None:
        """Record why checkov finds secrets in environment variables with account numbers."""
        for function in self._functions():
            skip_in_checkov(function, "CKV_AWS_45", "The twelve digits are an account number, which is not a secret")

    def _watch(self) -> None:
        """Add the alarms of the control plane, the dashboard of all Regions, saved queries and the budget."""
        self.alarms = Alarms(self, "Alarms", grid=self._grid, key=self._key)
        for subject, dead_letters, function in (
            ("intake", self.intake.dead_letters, self.intake.function),
            ("recorder", self.job_events.dead_letters, self.job_events.function),
            ("reconciler", self.reconciler.dead_letters, self.reconciler.function),
            ("region-guard", self.guard.dead_letters, self.guard.function),
        ):
            self.alarms.undelivered(subject, dead_letters)
            self.alarms.failing(subject, function)
            self.alarms.late(subject, function)
        # Lambda sends an event that failed three times to this queue. No running job needs the function, so this alarm
        # is enough; each further one costs 10 to 20 cents a month.
        self.alarms.undelivered("registrar", self.datasets.dead_letters)
        if self.follower:
            self.alarms.undelivered("follower", self.follower.dead_letters)
            self.alarms.failing("follower", self.follower.function)
        self.alarms.no_sweep()
        self.alarms.stopped_by_sweep()
        self.alarms.unreachable()
        self.alarms.long_wait()
        self.alarms.throttled_ledger(self.ledger)
        self.alarms.queue_blocked(self.orchestrator.queue)
        self.alarms.key_in_danger("control")
        self.alarms.outage(self.orchestrator.log_group)
        self.alarms.denied(self.orchestrator.log_group)
        Dashboard(self, "Dashboard", grid=self._grid)
        groups = [self.orchestrator.log_group, *(function.log_group for function in self._functions())]
        saved_queries(self, grid=self._grid.name, log_groups=groups)
        budget(self, self._grid)

    def _outputs(self) -> None:
        CfnOutput(self, "ManifestBucket", value=self.manifests.bucket_name)
        CfnOutput(self, "ManifestFolder", value=f"s3://{self.manifests.bucket_name}/{names.MANIFEST_PREFIX}")
        CfnOutput(self, "LedgerTable", value=self.ledger.table_name)
        CfnOutput(self, "JobQueue", value=self.orchestrator.queue.job_queue_arn)
        CfnOutput(self, "JobDefinition", value=self.orchestrator.definition.job_definition_arn)
        CfnOutput(self, "IntakeFunction", value=self.intake.function.function_name)
        CfnOutput(self, "IntakeDeadLetterQueue", value=self.intake.dead_letters.queue_url)
        CfnOutput(self, "ReconcileFunction", value=self.reconciler.function.function_name)
        CfnOutput(self, "RegisterFunction", value=self.datasets.function.function_name)
        CfnOutput(self, "RegisterDeadLetterQueue", value=self.datasets.dead_letters.queue_url)
        CfnOutput(self, "LogGroup", value=self.orchestrator.log_group.log_group_name)
