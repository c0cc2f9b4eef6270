"""Refusals: the errors of a launch on Amazon EKS, each with the command that fixes it."""

from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.outage import is_expired, is_outage
from traingrid.backends.base import LaunchError
from traingrid.backends.eks.access import DEPLOY, Access, is_missing_permission
from traingrid.job.failures import (
    INVALID_REQUEST,
    PERMISSION,
    QUOTA,
    SERVICE_ERROR,
    THROTTLED,
    Failure,
    failure_of_refusal,
)
from traingrid.kubernetes.cluster import NoClusterError
from traingrid.kubernetes.errors import FORBIDDEN, NOT_FOUND, TOO_MANY, UNAUTHORIZED, ApiError, UnavailableError

UNKNOWN_ROLE_SECONDS = 120.0
"""The time after which a cluster that has refused every token of this process does not know its role. Before that, its
API server may be starting, or AWS STS may be overloaded (see `UnavailableError`)."""
OPERATOR = "https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.1/deploy/v2beta1/mpi-operator.yaml"
"""The manifest of the first version of the MPI operator that never runs two launchers of one MPIJob
(https://github.com/kubeflow/mpi-operator/pull/810)."""
_ENDING = "because it is being terminated"
"""The end of the message of a 403 for a new object in a namespace that is being deleted
(staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go of Kubernetes)."""


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """Explains errors of one cluster."""

    access: Access

    def launch_error(self, name: str, error: Exception) -> Exception:
        """Return the LaunchError of an error, or the error itself if the caller can renew expired credentials.

        Args:
            error: The error of AWS or of the cluster's API server.
        """
        if isinstance(error, NoClusterError):
            return LaunchError(INVALID_REQUEST, str(error))
        if isinstance(error, UnavailableError):
            return self._unavailable(name, error)
        if isinstance(error, ApiError):
            return self._launch_error(name, error)
        if isinstance(error, BotoCoreError | ClientError) and is_outage(error) and not is_expired(error):
            return self._outage(name, error, SERVICE_ERROR)
        if isinstance(error, ClientError) and failure_of_refusal(error.response["Error"]["Code"]) is PERMISSION:
            place = f"{self.access.cluster.cluster} in {self.access.region}"
            text = f"AWS does not let {self._role} describe the cluster {place}: {str(error).rstrip('.')}."
            return LaunchError(PERMISSION, f"{text} Run {DEPLOY}, which restores the policies of the role.")
        return error

    def _outage(self, name: str, error: Exception, failure: Failure) -> LaunchError:
        text = f"{self.access.title} cannot return the state of {name} now: {error}"
        return LaunchError(failure, text, unresolved=True)

    def _unavailable(self, name: str, error: UnavailableError) -> LaunchError:
        if error.code != UNAUTHORIZED:
            return self._outage(name, error, THROTTLED if error.code == TOO_MANY else SERVICE_ERROR)
        if error.refused_seconds >= UNKNOWN_ROLE_SECONDS:
            return LaunchError(PERMISSION, f"{self.access.title} does not know {self._role}. {self.access.entry_step}")
        text = f"{self.access.title} does not accept the token of {self._role}, so the state of {name} is unknown now."
        step = self.access.entry_step
        return LaunchError(SERVICE_ERROR, f"{text} If this lasts, {step[:1].lower()}{step[1:]}", unresolved=True)

    def _launch_error(self, name: str, error: ApiError) -> LaunchError:
        title, namespace = self.access.title, self.access.cluster.namespace
        if error.code == FORBIDDEN and (forbidden := self._forbidden_error(name, error)):
            return forbidden
        if error.code == NOT_FOUND and error.kind == "namespaces":
            return LaunchError(INVALID_REQUEST, f"{title} has no namespace {namespace}. {self.access.objects_step}")
        if error.code == NOT_FOUND:  # the path of a definition that is not installed
            kind = "`kind: job` in grid.yaml, or `eks_kind: job` in the line"
            install = f"As an administrator of the cluster, run `kubectl apply --server-side -f {OPERATOR}`"
            return LaunchError(
                INVALID_REQUEST, f"{title} has no MPI operator, which {name} needs. {install}; or write {kind}."
            )
        text = f"{title} rejected {name}: {error.reply}."
        return LaunchError(INVALID_REQUEST, f"{text} {self._rejected_step(name, error)}")

    def _forbidden_error(self, name: str, error: ApiError) -> LaunchError | None:
        """Return the LaunchError of a 403; None if a policy of admission refused the object."""
        title, namespace, step = self.access.title, self.access.cluster.namespace, self.access.objects_step
        message = error.message.rstrip(".")
        if "exceeded quota" in message:
            command = f"`kubectl describe resourcequota -n {namespace}` shows it."
            return LaunchError(QUOTA, f"A quota of the namespace {namespace} prevents {name}: {message}. {command}")
        if message.endswith(_ENDING):
            text = f"{title} rejected {name}, because its namespace {namespace} is being deleted."
            next_step = f"When `kubectl get namespace {namespace}` no longer finds it: {step[:1].lower()}{step[1:]}"
            return LaunchError(INVALID_REQUEST, f"{text} {next_step}")
        if is_missing_permission(error):
            text = f"{title} does not let this grid launch {name}: {message or 'Forbidden'}."
            return LaunchError(PERMISSION, f"{text} {step}")
        return None

    def _rejected_step(self, name: str, error: ApiError) -> str:
        """Return the next step for a rejected object; policies of admission reply 403, or their own status."""
        identity = names.parse_training_job(self.access.grid, name)
        retry = f"traingrid retry {identity.submission if identity else 'SUBMISSION'}"
        line = f"fix the line, then run `{retry} MANIFEST`"
        if error.code == FORBIDDEN or "admission" in error.message.lower():
            return f"Fix the policy of the cluster, then run `{retry}`; or {line}."
        return f"{line[:1].upper()}{line[1:]}."

    @property
    def _role(self) -> str:
        return f"the role {self.access.role}" if self.access.role else "the role of this process"
