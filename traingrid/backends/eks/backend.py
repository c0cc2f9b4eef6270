"""EKS backend: creates, describes and stops training jobs as objects of a Kubernetes cluster, and reads their logs.

The object's name is the idempotency token. Its finalizer keeps the name taken until the reconciler has found the end in
the ledger (traingrid/backends/eks/inventory.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.clients import ClientFactory, client
from traingrid.aws.log_events import LogPosition
from traingrid.backends.base import LaunchError, StopReason
from traingrid.backends.eks import labels
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.indexed_job import headless_service, indexed_job
from traingrid.backends.eks.jobs import ClusterJobs
from traingrid.backends.eks.log import EksLogs
from traingrid.backends.eks.mpi_job import mpi_job
from traingrid.backends.eks.refusals import Refusals
from traingrid.backends.eks.state import describe_cluster_job, tags_in
from traingrid.backends.eks.training_object import TrainingObject
from traingrid.backends.eks.watch import ChangeWatch
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.job.failures import INVALID_REQUEST, SERVICE_ERROR
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.ownership import conflict, is_of_grid
from traingrid.kubernetes.client import JOB, MPI_JOB, SERVICE, Object
from traingrid.kubernetes.cluster import NoClusterError
from traingrid.kubernetes.errors import CONFLICT, UNAUTHORIZED, ApiError, UnavailableError

_ERRORS = (ApiError, NoClusterError, BotoCoreError, ClientError)


class Eks:
    """Training jobs of one Region's cluster.

    Args:
        region: A training Region of the grid with a cluster.

    Raises:
        UsageError: The Region has no cluster.
    """

    def __init__(self, deployment: Deployment, region: str, make_client: ClientFactory = client) -> None:
        self._deployment, self._region, self._grid = deployment, region, deployment.grid.name
        self._jobs = ClusterJobs(deployment, region, make_client)
        self._logs = EksLogs(self._jobs)
        self._refusals = Refusals(access=self._jobs.access)
        self._watches: dict[str, ChangeWatch] = {}

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        """See `Backend.start`."""
        with self._launching(name):
            cluster_job = self._jobs.find(name)
            if cluster_job is None:
                if self._create(self._training_object(name, job, tags)):
                    return None
                cluster_job = self._jobs.find(name)
                if cluster_job is None:  # deleted just now, or the reply to the creation was lost
                    text = f"The cluster in {self._region} did not confirm that it created {name}."
                    raise LaunchError(SERVICE_ERROR, text, unresolved=True)
            return self._require_own(cluster_job, self.fingerprint(name, job))

    def attach(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:  # noqa: ARG002  # part of the protocol
        """See `Backend.attach`. While the cluster refuses access, the training job may still run, so this waits."""
        try:
            with self._launching(name):
                cluster_job = self._jobs.find(name)
                return self._require_own(cluster_job, self.fingerprint(name, job)) if cluster_job else None
        except LaunchError as error:
            if isinstance(error.__cause__, ApiError | NoClusterError) and not error.failure.retried:
                raise LaunchError(SERVICE_ERROR, error.what, unresolved=True) from error
            raise

    def describe(self, name: str) -> TrainingJobDescription | None:
        """See `Backend.describe`.

        Stops a training job that does not start in time, and an MPIJob of which a worker has failed, ends pods
        that other containers keep running, completes a deletion, and notes a pod that the cluster ends.
        """
        if name in self._watches:
            self._watches[name].reset()
        cluster_job = self._jobs.find(name)
        if cluster_job is None:
            return None
        if self._jobs.stop_hanging(cluster_job) or self._jobs.end_left_running(cluster_job):
            cluster_job = self._jobs.find(name) or cluster_job
        self._jobs.complete_stop(cluster_job)
        return describe_cluster_job(self._jobs.notes.added_to(cluster_job))

    def has_news(self, name: str, /) -> bool:
        """See `Backend.has_news`. The first call starts the watch."""
        if name not in self._watches:
            cluster_job = self._jobs.find(name)
            if cluster_job is None:
                return False
            for other_watch in self._watches.values():
                other_watch.close()
            self._watches = {name: ChangeWatch(self._jobs.client, cluster_job.kind, cluster_job.object)}
        return self._watches[name].has_changed

    def tags(self, training_job: TrainingJobDescription) -> dict[str, str] | None:
        """See `Backend.tags`."""
        *_, name, uid = training_job.arn.split("/")
        cluster_job = self._jobs.find(name)
        return tags_in(cluster_job) if cluster_job and cluster_job.uid == uid else None

    def stop(self, name: str, reason: StopReason = "cancel", /) -> None:
        """See `Backend.stop`."""
        cluster_job = self._jobs.find(name)
        if cluster_job and cluster_job.ended_at is None:
            training_job = describe_cluster_job(cluster_job)
            message = training_job.reason if reason == "capacity" else ""
            self._jobs.stop(cluster_job, reason, message)

    def fingerprint(self, name: str, job: Job) -> str:
        """See `Backend.fingerprint`: the fingerprint of the request in SageMaker's form."""
        return fingerprint(self._request(name, job, {}))

    def log_lines(
        self,
        name: str,
        position: LogPosition,
        *,
        to_end: bool = True,  # noqa: ARG002  # the API has no pages
        discover: bool = True,  # noqa: ARG002  # the pods are listed in any case
    ) -> Iterator[tuple[str, str]]:
        """See `Backend.log_lines`."""
        return self._logs.log_lines(name, position)

    @contextmanager
    def _launching(self, name: str) -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            raise self._refusals.launch_error(name, error) from error

    def _create(self, training_object: TrainingObject) -> bool:
        """Create an object by one request, and its Service.

        Returns:
            False if the name is taken, or the reply was lost.
        """
        definition = self._storable(
            indexed_job(training_object) if training_object.kind == "job" else mpi_job(training_object), training_object
        )
        try:
            created_object = self._jobs.client.create(JOB if training_object.kind == "job" else MPI_JOB, definition)
        except UnavailableError as error:
            if error.code == UNAUTHORIZED:  # the server did nothing
                raise
            return False
        except ApiError as error:
            if error.code == CONFLICT:
                return False
            raise
        self._add_service(created_object)
        return True

    def _storable(self, definition: Object, training_object: TrainingObject) -> Object:
        """Return an object whose annotations Kubernetes accepts."""
        spec = definition["spec"]
        template = spec["template"] if "template" in spec else spec["mpiReplicaSpecs"]["Launcher"]["template"]
        size = max(_size(part["metadata"]["annotations"]) for part in (definition, template))
        if size > labels.MAX_ANNOTATIONS:
            limit = f"{labels.MAX_ANNOTATIONS:,} bytes that Kubernetes allows for annotations"
            text = f"The request of {training_object.name} has {size:,} bytes, more than the {limit}."
            raise LaunchError(INVALID_REQUEST, f"{text} Shorten its hyperparameters, environment and tags.")
        return definition

    def _add_service(self, definition: Object) -> None:
        """Create the Service of an Indexed Job; the MPI operator creates that of an MPIJob.

        Raises:
            LaunchError: It was not created. The Job exists, so the attempt stays unresolved, and the next try adds it.
        """
        if definition["kind"] != JOB.kind:
            return
        try:
            self._jobs.client.ensure(SERVICE, headless_service(definition))
        except ApiError as error:
            name = definition["metadata"]["name"]
            text = f"{name} was created, but not its Service, by which its hosts find each other:"
            raise LaunchError(
                SERVICE_ERROR, f"{text} {self._refusals.launch_error(name, error)}", unresolved=True
            ) from error

    def _require_own(self, cluster_job: ClusterJob, expected: str) -> TrainingJobDescription:
        """Return the existing training job if this job created it; otherwise raise.

        The child that created it may have died before it created the Service.
        """
        training_job, tags = describe_cluster_job(cluster_job), tags_in(cluster_job)
        if training_job.fingerprint != expected or not is_of_grid(tags, self._grid):
            raise LaunchError(*conflict(self._grid, tags, training_job, expected))
        if not cluster_job.is_over:
            self._add_service(
                {"apiVersion": cluster_job.kind.version, "kind": cluster_job.kind.kind, **cluster_job.object}
            )
        return training_job

    def _training_object(self, name: str, job: Job, tags: dict[str, str]) -> TrainingObject:
        """Return the object that the cluster should have for a training job; raise LaunchError if none can be made."""
        identity = names.parse_training_job(self._grid, name)
        settings = self._jobs.settings
        if identity is None:
            raise ValueError(f"{name} is not the name of a training job of {self._grid}")
        request = self._request(name, job, tags)
        training_object = TrainingObject(
            grid=self._grid,
            name=name,
            identity=identity,
            job=job,
            region=self._region,
            cluster=settings,
            cluster_arn=self._jobs.client.cluster.arn,
            auto_mode=self._jobs.client.cluster.auto_mode,
            request=request,
            fingerprint=self.fingerprint(name, job),
            tags={**job.tags, **tags},
            pod_image=self._deployment.pod_image,
        )
        if reason := _unsupported_problem(training_object):
            raise LaunchError(INVALID_REQUEST, f"{name} cannot run on Amazon EKS: {reason}.")
        return training_object

    def _request(self, name: str, job: Job, tags: dict[str, str]) -> dict[str, Any]:
        """Return the request as `traingrid.pod` and `train` read it. Networks are the cluster's networks."""
        request = training_job_request(name, job, self._deployment.execution_role_arn(self._region), tags)
        key = self._deployment.grid.output_key(self._deployment.account_of(self._region), self._region)
        if key:
            request["OutputDataConfig"]["KmsKeyId"] = key
        return request


def _unsupported_problem(training_object: TrainingObject) -> str:
    """Return why pods cannot run a job whose grid.yaml has changed since its manifest was checked; or an empty text."""
    if not training_object.job.image or training_object.job.is_algorithm:
        return "it runs an algorithm of SageMaker"
    if not training_object.pod_image:
        return "this deployment has no image for the containers that provide /opt/ml; deploy the grid again"
    for name, channel in training_object.job.inputs.items():
        if channel.input_mode == "Pipe":
            return f"its channel {name} is in Pipe mode, which only SageMaker has"
        if channel.file_system and channel.file_system not in training_object.cluster.file_system_volumes:
            return f"file_system_volumes in grid.yaml has no volume of {channel.file_system}"
        bucket = channel.uri.removeprefix("s3://").partition("/")[0]
        if (
            channel.input_mode == "FastFile"
            and not channel.file_system
            and bucket not in training_object.cluster.s3_volumes
        ):
            return f"s3_volumes in grid.yaml has no volume of {bucket}"
    return ""


def _size(annotations: dict[str, str]) -> int:
    return sum(len(text.encode()) for entry in annotations.items() for text in entry)
