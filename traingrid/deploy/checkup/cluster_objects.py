"""Objects in a cluster: checks the namespace, the permissions of the grid's groups, operators, queues and volumes.

The checks run with the permissions of a person. A SubjectAccessReview asks the API server for the permissions of a
group (https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access). If the person may
not create one, the Role and the RoleBinding are compared instead; a check that is denied is reported as such.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy.checkup.account import principal
from traingrid.deploy.checkup.cluster import CheckedCluster
from traingrid.deploy.checkup.finding import REVERT_DRIFT, Finding, Verdict, run_check
from traingrid.deploy.checkup.kinds import ACCESS_REVIEW, CLAIM, NAMESPACE, QUEUES, ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from traingrid.deploy.checkup.mpi_operator import installation, mpi_operator
from traingrid.deploy.cluster_access import BATCH, KUBEFLOW, RULES, Rule, role_name
from traingrid.kubernetes.client import MPI_JOB, Client, Kind
from traingrid.kubernetes.cluster import NoClusterError, cluster_of
from traingrid.kubernetes.connection import RequestLimits
from traingrid.kubernetes.errors import FORBIDDEN, NOT_FOUND, UNAUTHORIZED, ApiError, UnavailableError
from traingrid.kubernetes.token import Tokens
from traingrid.names import Part

_CHECK_LIMITS = RequestLimits(connect=5.0, read=20.0, tries=2)
_NO_REVIEW = (FORBIDDEN, NOT_FOUND)
_GROUPS: tuple[Part, ...] = ("launch", "sweep")
_ENFORCED = "pod-security.kubernetes.io/enforce"
_MPI_JOBS = "MPIJob v2beta1"
_COSTLY = ((BATCH, "jobs"), (KUBEFLOW, "mpijobs"), ("", "pods"))


def client_of(cluster: CheckedCluster) -> Client:
    """Return a client of a cluster with the caller's credentials, or those of `use` in another account."""
    name = cluster.settings.cluster
    tokens = Tokens(name, cluster.region, client, cluster.role)
    return Client(
        cluster_of(name, cluster.region, client, cluster.role), cluster.settings.namespace, tokens, _CHECK_LIMITS
    )


def objects(cluster: CheckedCluster, open_client: Callable[[CheckedCluster], Client] = client_of) -> Iterator[Finding]:
    """Check the API of a cluster, and the objects that training jobs need.

    A cluster that EKS is creating, or could not create, has no API yet. `cluster.check_cluster` reports it.
    """
    subject = f"API of {cluster.settings.cluster}"
    opened: list[_Objects] = []

    def look() -> Finding:
        opened.append(_Objects(cluster, open_client(cluster)))
        return opened[0].api(subject)

    try:
        reached = run_check(cluster.region, subject, look, "eks:DescribeCluster")
    except NoClusterError:
        return
    yield reached
    if reached.verdict is Verdict.GOOD:
        yield from opened[0].all()


class _Objects:
    """The checks in one cluster."""

    def __init__(self, cluster: CheckedCluster, client: Client) -> None:
        self._cluster, self._client, self._settings = cluster, client, cluster.settings
        self._apply = cluster.apply_access

    def api(self, subject: str) -> Finding:
        """Check that the API server answers here, and accepts the caller's token."""
        cluster, settings = self._cluster, self._settings
        try:
            self._client.find(NAMESPACE, settings.namespace)
        except ApiError as error:
            if error.code == UNAUTHORIZED:
                caller = f"the role {names.name_of_arn(cluster.role.arn)}" if cluster.role else "your credentials"
                reason = f"it does not accept {caller}, so the objects in it are not checked"
                return cluster.finding(subject, Verdict.UNKNOWN, reason, self._let_in())
            if isinstance(error, UnavailableError):
                reason = f"it does not answer here: {error.message}"
                reason = f"{reason}; whether children and the reconciler reach it is unknown"
                return cluster.finding(subject, Verdict.UNKNOWN, reason)
        return cluster.finding(subject, reason="answers here")

    def _let_in(self) -> str:
        """Return the command that gives the caller access to the API.

        The deployment creates the access entry of the role in another account. An update replaces the groups of an
        entry (https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateAccessEntry.html).
        """
        cluster = self._cluster
        if cluster.role:
            return REVERT_DRIFT
        caller = principal(cluster.grid.home)
        group = names.kubernetes_group(cluster.grid.name, "use")
        create = cluster.commands.access_entry("create", caller)
        describe = cluster.commands.access_entry("describe", caller)
        update = cluster.commands.access_entry("update", caller)
        groups = f"$({describe} --query accessEntry.kubernetesGroups --output text)"
        instead = f"if it has an access entry already: {update} --kubernetes-groups {groups} {group}"
        return f"{create} --kubernetes-groups {group}; {instead}"

    def all(self) -> Iterator[Finding]:
        """Check all objects."""
        settings = self._settings
        yield self._look(f"namespace {settings.namespace}", "get namespaces", self._namespace)
        yield self._exists(SERVICE_ACCOUNT, settings.service_account, "service account", self._apply)
        for part in _GROUPS:
            subject = f"permissions of {names.kubernetes_group(self._cluster.grid.name, part)}"
            yield self._look(subject, "get roles and rolebindings", partial(self._group, subject, part))
        if setting := self._cluster.required("kind").get("mpijob"):
            yield from self._mpi(setting)
        for queue, setting in self._cluster.required("queue").items():
            yield self._look(f"LocalQueue {queue}", "get localqueues", partial(self._queue, queue, setting))
        for claim in sorted({*settings.s3_volumes.values(), *settings.file_system_volumes.values()}):
            yield self._look(f"claim {claim}", "get persistentvolumeclaims", partial(self._claim, claim))

    def _look(self, subject: str, needed: str, look: Callable[[], Finding]) -> Finding:
        """Return the finding of a check, or UNKNOWN if the caller may not look or the server does not answer."""
        try:
            return look()
        except ApiError as error:
            fix = f"allow the caller to {needed} in {self._settings.cluster}" if error.code == FORBIDDEN else ""
            return self._cluster.finding(subject, Verdict.UNKNOWN, str(error).rstrip("."), fix)

    def _exists(self, kind: Kind, name: str, noun: str, fix: str) -> Finding:
        subject = f"{noun} {name}"

        def look() -> Finding:
            if self._client.find(kind, name):
                return self._cluster.finding(subject)
            return self._cluster.finding(subject, Verdict.WRONG, "does not exist", fix)

        return self._look(subject, f"get {kind.plural}", look)

    def _namespace(self) -> Finding:
        """Check that the namespace exists and admits pods that run as root.

        Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/.
        """
        name = self._settings.namespace
        subject = f"namespace {name}"
        namespace = self._client.find(NAMESPACE, name)
        if namespace is None:
            return self._cluster.finding(subject, Verdict.WRONG, "does not exist", self._apply)
        if "deletionTimestamp" in namespace["metadata"]:
            fix = f"find the objects that keep it: {self._cluster.kubectl(f'describe namespace {name}')}"
            return self._cluster.finding(subject, Verdict.WRONG, "is being deleted", fix)
        if (namespace["metadata"].get("labels") or {}).get(_ENFORCED) == "restricted":
            reason = "enforces the Pod Security Standard restricted, which refuses pods that run as root"
            fix = self._cluster.as_administrator(f"label --overwrite namespace {name} {_ENFORCED}=baseline")
            return self._cluster.finding(subject, Verdict.WRONG, reason, fix)
        return self._cluster.finding(subject)

    def _group(self, subject: str, part: Part) -> Finding:
        """Check that a group has all its permissions, and that only children create training jobs."""
        try:
            missing = [access for access in _permissions(RULES[part]) if not self._is_allowed(part, *access)]
            may_cause_costs = part == "sweep" and any(self._is_allowed(part, "create", *kind) for kind in _COSTLY)
        except ApiError as error:
            if error.code not in _NO_REVIEW:
                raise
            return self._compare(subject, part)
        if missing:
            verb, _, resource = missing[0]
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            reason = f"it may not {verb} {resource}{more} in {self._settings.namespace}"
            return self._cluster.finding(subject, Verdict.WRONG, reason, self._apply)
        if may_cause_costs:
            reason = "it may create jobs or pods, although the reconciler must not cause costs"
            bindings = self._cluster.as_administrator("get rolebindings,clusterrolebindings -A -o wide")
            fix = f"remove it from the bindings of other Roles; to list them, {bindings}"
            return self._cluster.finding(subject, Verdict.WRONG, reason, fix)
        return self._cluster.finding(subject, reason="as the API server reports")

    def _is_allowed(self, part: Part, verb: str, group: str, resource: str) -> bool:
        plural, _, subresource = resource.partition("/")
        attributes = {"namespace": self._settings.namespace, "verb": verb, "group": group, "resource": plural}
        if subresource:
            attributes["subresource"] = subresource
        groups = [names.kubernetes_group(self._cluster.grid.name, part), "system:authenticated"]
        review = {
            "apiVersion": ACCESS_REVIEW.version,
            "kind": ACCESS_REVIEW.kind,
            "spec": {"user": "traingrid-doctor", "groups": groups, "resourceAttributes": attributes},
        }
        status = self._client.create(ACCESS_REVIEW, review).get("status") or {}
        return bool(status.get("allowed"))

    def _compare(self, checked: str, part: Part) -> Finding:
        """Compare the Role and the RoleBinding of a group with those of `traingrid eks access`."""
        name = role_name(self._cluster.grid.name, part)
        group = names.kubernetes_group(self._cluster.grid.name, part)
        role, binding = self._client.find(ROLE, name), self._client.find(ROLE_BINDING, name)
        if role is None or binding is None:
            missing = "Role" if role is None else "RoleBinding"
            return self._cluster.finding(checked, Verdict.WRONG, f"the {missing} {name} does not exist", self._apply)
        subjects = {subject.get("name") for subject in binding.get("subjects") or []}
        lacking = [required for required in _permissions(RULES[part]) if not _grants(role, *required)]
        if lacking or group not in subjects or (binding.get("roleRef") or {}).get("name") != name:
            reason = f"the Role {name} or its RoleBinding differs from that of this version"
            return self._cluster.finding(checked, Verdict.WRONG, reason, self._apply)
        return self._cluster.finding(checked, reason=f"as in the Role {name}")

    def _mpi(self, setting: str) -> Iterator[Finding]:
        """Check that the cluster serves MPIJobs, which `setting` requires, and the version of their operator."""
        finding = self._look(_MPI_JOBS, "list mpijobs", partial(self._mpi_jobs, setting))
        yield finding
        if finding.verdict is not Verdict.WRONG:
            yield self._look("mpi-operator", "list deployments", partial(mpi_operator, self._cluster, self._client))

    def _mpi_jobs(self, setting: str) -> Finding:
        try:
            next(self._client.pages(MPI_JOB), None)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            reason = f"the cluster does not serve it, but {setting} is mpijob"
            fix = f"change {setting} to job, or {installation(self._cluster)}"
            return self._cluster.finding(_MPI_JOBS, Verdict.WRONG, reason, fix)
        return self._cluster.finding(_MPI_JOBS)

    def _queue(self, queue: str, setting: str) -> Finding:
        subject = f"LocalQueue {queue}"
        queue_objects = (self._client.find(kind, queue) for kind in QUEUES)
        queue_object = next((entry for entry in queue_objects if entry is not None), None)
        if queue_object is None:
            fix = f"create it in {self._settings.namespace} (https://kueue.sigs.k8s.io/docs/concepts/local_queue/)"
            return self._cluster.finding(subject, Verdict.WRONG, "does not exist", f"{fix}, or correct {setting}")
        conditions = (queue_object.get("status") or {}).get("conditions") or []
        for condition in conditions:
            if condition.get("type") == "Active" and condition.get("status") == "False":
                reason = f"it is not active: {condition.get('message', '')}".rstrip(": ")
                command = f"describe localqueue --namespace {self._settings.namespace} {queue}"
                return self._cluster.finding(subject, Verdict.WRONG, reason, self._cluster.kubectl(command))
        return self._cluster.finding(subject)

    def _claim(self, claim: str) -> Finding:
        subject = f"claim {claim}"
        claim_object = self._client.find(CLAIM, claim)
        if claim_object is None:
            fix = f"create it in {self._settings.namespace}, or correct s3_volumes and file_system_volumes"
            return self._cluster.finding(subject, Verdict.WRONG, "does not exist", fix)
        phase = (claim_object.get("status") or {}).get("phase", "Pending")
        if phase == "Bound":
            return self._cluster.finding(subject, reason=phase)
        fix = self._cluster.kubectl(f"describe pvc --namespace {self._settings.namespace} {claim}")
        return self._cluster.finding(subject, Verdict.WRONG, f"it is {phase}, not Bound", fix)


def _permissions(rules: Iterable[Rule]) -> Iterator[tuple[str, str, str]]:
    """Yield the verb, the API group and the resource of each permission."""
    for rule in rules:
        for resource in rule.resources:
            yield from ((verb, rule.group, resource) for verb in rule.verbs)


def _grants(role: Mapping[str, Any], verb: str, group: str, resource: str) -> bool:
    """Return True if a rule of a Role includes a permission."""
    return any(
        verb in (rule.get("verbs") or ())
        and group in (rule.get("apiGroups") or ())
        and resource in (rule.get("resources") or ())
        for rule in role.get("rules") or []
    )
