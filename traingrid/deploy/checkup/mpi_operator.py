"""MPI operator: checks the version of the operator that runs the MPIJobs of a cluster."""

import re
from collections.abc import Mapping
from typing import Any

from traingrid.backends.eks.refusals import OPERATOR
from traingrid.deploy.checkup.cluster import CheckedCluster
from traingrid.deploy.checkup.finding import Finding, Verdict
from traingrid.deploy.checkup.kinds import DEPLOYMENT, OPERATOR_DEPLOYMENT
from traingrid.kubernetes.client import Client
from traingrid.kubernetes.errors import FORBIDDEN, ApiError

MIN_OPERATOR = (0, 8, 1)
"""The version of mpi-operator since which no second launcher runs beside the first
(https://github.com/kubeflow/mpi-operator/pull/810)."""
_MIN_VERSION = ".".join(map(str, MIN_OPERATOR))
_NAME = "mpi-operator"
"""The name of the container, and of the namespace and the Deployment of the operator's own manifest."""
_VERSION = re.compile(r":v?(\d+)\.(\d+)(?:\.(\d+))?(?:@.*)?$", re.ASCII)


def installation(cluster: CheckedCluster) -> str:
    """Return the command that installs the operator, or updates the one that its own manifest has installed."""
    return cluster.as_administrator(f"apply --server-side -f {OPERATOR}")


def mpi_operator(cluster: CheckedCluster, client: Client) -> Finding:
    """Check the version of the operator, in all namespaces if the caller may list their Deployments.

    The Helm chart of SageMaker HyperPod installs version 0.5 in the namespace of its release, kube-system in AWS's
    examples, as RELEASE-mpi-operator
    (https://github.com/aws/sagemaker-hyperpod-cli/tree/main/helm_chart/HyperPodHelmChart/charts/mpi-operator).

    Raises:
        ApiError: The server did not answer.
    """
    try:
        deployments = [deployment for deployment in client.all(DEPLOYMENT) if _is_running(deployment)]
        place = "the cluster"
    except ApiError as error:
        if error.code != FORBIDDEN:
            raise
        place = f"the namespace {_NAME}, and the caller may not list those of all namespaces"
        try:
            operator = client.find(OPERATOR_DEPLOYMENT, _NAME)
        except ApiError as denied:
            if denied.code != FORBIDDEN:
                raise
            return _unknown_finding(cluster, "the caller may not read its Deployment, so its version is not checked")
        deployments = [operator] if operator and _is_running(operator) else []
    if not deployments:
        return _unknown_finding(cluster, f"it has no Deployment in {place}, so its version is not checked")
    findings = [_finding(cluster, operator_deployment) for operator_deployment in deployments]
    return next((finding for finding in findings if finding.verdict is not Verdict.GOOD), findings[0])


def _unknown_finding(cluster: CheckedCluster, reason: str) -> Finding:
    command = cluster.kubectl(f"get deployments --all-namespaces --output wide | grep {_NAME}")
    fix = f"find its image, whose version must be {_MIN_VERSION} or later: {command}"
    return cluster.finding(_NAME, Verdict.UNKNOWN, reason, fix)


def _is_running(deployment: Mapping[str, Any]) -> bool:
    """Return True if a Deployment runs the operator and is not scaled to zero."""
    spec = deployment["spec"]
    name, containers = deployment["metadata"]["name"], spec["template"]["spec"]["containers"]
    return spec.get("replicas") != 0 and (
        name == _NAME or any(container.get("name") == _NAME for container in containers)
    )


def _finding(cluster: CheckedCluster, deployment: Mapping[str, Any]) -> Finding:
    metadata, containers = deployment["metadata"], deployment["spec"]["template"]["spec"]["containers"]
    image = str(
        next((container for container in containers if container.get("name") == _NAME), containers[0]).get("image", "")
    )
    match = _VERSION.search(image)
    version = tuple(int(part) for part in match.groups() if part is not None) if match else ()
    least = MIN_OPERATOR[: len(version)]
    if not version or (version == least and version != MIN_OPERATOR):
        return _unknown_finding(cluster, f"the image {image} does not name its version")
    if version >= least:
        return cluster.finding(_NAME, reason=".".join(map(str, version)))
    namespace, name = metadata["namespace"], metadata["name"]
    reason = f"before {_MIN_VERSION}, a second launcher could run beside the first; {name} in {namespace} is {image}"
    fix = installation(cluster)
    if (namespace, name) != (_NAME, _NAME):
        chart = "in the Helm chart of SageMaker HyperPod by `mpi-operator.enabled: false`"
        fix = f"when no MPIJob runs, remove {name} from {namespace} ({chart}), then {fix}"
    return cluster.finding(_NAME, Verdict.WRONG, reason, fix)
