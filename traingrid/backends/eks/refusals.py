"""Refusals: the errors of a launch on Amazon EKS, each with the command that fixes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.outage import is_expired, is_outage
from traingrid.backends.base import LaunchError
from traingrid.job.failures import INVALID_REQUEST, PERMISSION, QUOTA, SERVICE_ERROR, THROTTLED, of_refusal
from traingrid.kubernetes.cluster import NoClusterError
from traingrid.kubernetes.errors import FORBIDDEN, NOT_FOUND, TOO_MANY, UNAUTHORIZED, ApiError, UnavailableError

if TYPE_CHECKING:
    from traingrid.grid.eks import EksCluster
    from traingrid.job.failures import Failure

UNKNOWN_ROLE_SECONDS = 120.0
"""The time after which a cluster that has refused every token of this process does not know its role. Before that, its
API server may be starting, or AWS STS may be overloaded (see `UnavailableError`)."""
OPERATOR = "https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.1/deploy/v2beta1/mpi-operator.yaml"
"""The manifest of the first version of the MPI operator that never runs two launchers of one MPIJob
(https://github.com/kubeflow/mpi-operator/pull/810)."""


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """Explains errors of one cluster.

    Attributes:
        region: The Region.
        cluster: The `eks` section of the Region in grid.yaml.
    """

    region: str
    cluster: EksCluster

    def launch_error(self, name: str, error: Exception) -> Exception:
        """Return the LaunchError of an error, or the error itself if the caller can renew expired credentials.

        Args:
            name: The training job's name.
            error: The error of AWS or of the cluster's API server.
        """
        if isinstance(error, NoClusterError):
            return LaunchError(INVALID_REQUEST, str(error))
        if isinstance(error, UnavailableError):
            return self._unavailable(name, error)
        if isinstance(error, ApiError):
            return self._refused(name, error)
        if isinstance(error, BotoCoreError | ClientError) and is_outage(error) and not is_expired(error):
            return self._outage(name, error, SERVICE_ERROR)
        if isinstance(error, ClientError) and of_refusal(error.response["Error"]["Code"]) is PERMISSION:
            what = f"AWS does not let this role describe the cluster {self.cluster.cluster} in {self.region}: {error}."
            return LaunchError(PERMISSION, what)
        return error

    def _outage(self, name: str, error: Exception, failure: Failure) -> LaunchError:
        what = f"The cluster {self.cluster.cluster} in {self.region} cannot return the state of {name} now: {error}"
        return LaunchError(failure, what, unresolved=True)

    def _unavailable(self, name: str, error: UnavailableError) -> LaunchError:
        if error.code != UNAUTHORIZED:
            return self._outage(name, error, THROTTLED if error.code == TOO_MANY else SERVICE_ERROR)
        where, region = f"The cluster {self.cluster.cluster} in {self.region}", self.region
        entries = f"`aws eks list-access-entries --region {region} --cluster-name {self.cluster.cluster}`"
        if error.refused_seconds >= UNKNOWN_ROLE_SECONDS:
            what = f"{where} does not know the role of this process. Deploy the grid; {entries} must list the role."
            return LaunchError(PERMISSION, what)
        what = f"{where} does not accept the token of this process, so the state of {name} is unknown now."
        return LaunchError(SERVICE_ERROR, f"{what} If this lasts, {entries} must list the role.", unresolved=True)

    def _refused(self, name: str, error: ApiError) -> LaunchError:
        where, namespace = f"The cluster {self.cluster.cluster} in {self.region}", self.cluster.namespace
        access = f"Run `traingrid eks access {self.region} | kubectl apply -f -` with a user of the cluster."
        message = error.message.rstrip(".")
        if error.code == FORBIDDEN and "exceeded quota" in message:
            command = f"`kubectl describe resourcequota -n {namespace}` shows it."
            return LaunchError(QUOTA, f"A quota of the namespace {namespace} prevents {name}: {message}. {command}")
        if error.code == FORBIDDEN and ("cannot " in message or not message):  # RBAC; an admission webhook denies, too
            return LaunchError(PERMISSION, f"{where} does not let this grid launch {name}: {message}. {access}")
        if error.code == NOT_FOUND and error.kind == "namespaces":
            return LaunchError(INVALID_REQUEST, f"{where} has no namespace {namespace}. {access}")
        if error.code == NOT_FOUND:  # the path of a definition that is not installed
            kind = "`kind: job` in grid.yaml, or `eks_kind: job` in the line"
            install = f"Run `kubectl apply --server-side -f {OPERATOR}`; or write {kind}."
            return LaunchError(INVALID_REQUEST, f"{where} has no MPI operator, which {name} needs. {install}")
        return LaunchError(INVALID_REQUEST, f"{where} rejected {name}: {error.code} {error.reason}: {message}.")
