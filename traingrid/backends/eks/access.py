"""Access: the causes of errors of a cluster, for roles of the grid and for users, with the commands that fix them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from traingrid import names
from traingrid.grid.deployment import Deployment
from traingrid.grid.eks import EksCluster
from traingrid.kubernetes.commands import Commands
from traingrid.kubernetes.errors import FORBIDDEN, UNAUTHORIZED, ApiError, NoReplyError

DEPLOY = "`npx cdk deploy --all --revert-drift`"
"""The deployment that also creates an access entry or a policy that was deleted outside CloudFormation."""
_RBAC = re.compile(r'\bUser ".*" cannot ')
"""The message of a refusal by RBAC (forbiddenMessage in apiserver/pkg/endpoints/handlers/responsewriters/errors.go of
Kubernetes). Admission webhooks and quotas also reply 403."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """The access of this process to one cluster.

    Attributes:
        cluster: The `eks` section of the Region in grid.yaml.
        role: The ARN of the role of the grid that the process has; empty for a user with other credentials.
    """

    grid: str
    region: str
    cluster: EksCluster
    role: str = ""

    @classmethod
    def of(cls, deployment: Deployment, region: str, cluster: EksCluster, role: str = "") -> Access:
        """Return the access of a process of a deployment.

        Args:
            cluster: The `eks` section of the Region.
            role: The ARN of the process's role, if it is not the role of the deployment's `part`.
        """
        role = role or deployment.role_in(region)
        return cls(grid=deployment.grid.name, region=region, cluster=cluster, role=role)

    @property
    def title(self) -> str:
        """The cluster, as the subject of a sentence."""
        return f"The cluster {self.cluster.cluster} in {self.region}"

    @property
    def caller(self) -> str:
        """The principal whose requests the cluster refuses."""
        return f"the role {self.role}" if self.role else "your credentials"

    @property
    def entry_step(self) -> str:
        """The next step if the cluster does not know the caller."""
        if not self.role:
            group = names.kubernetes_group(self.grid, "use")
            create = self._commands.access_entry("create", "ARN-OF-YOUR-ROLE")
            return f"Ask its administrator to run `{create} --kubernetes-groups {group}`."
        describe = self._commands.access_entry("describe", self.role)
        delete = self._commands.access_entry("delete", self.role)
        again = f"the role was created again after the entry: run `{delete}`, then that deployment"
        return f"Run `{describe}`. If it finds no entry, run {DEPLOY}. If it finds one, {again}."

    @property
    def objects_step(self) -> str:
        """The next step if the cluster lacks the namespace or the permissions of a group."""
        context, apply = self._commands.kubeconfig, self._commands.apply_access
        return f"As an administrator of the cluster, run `{context}`, then `{apply}`."

    @property
    def route_step(self) -> str:
        """The next step if the API server does not reply."""
        command = f"`aws eks describe-cluster {self._commands.options} --query cluster.resourcesVpcConfig`"
        start = "If this lasts, check the route from the network of this process" if self.role else "Check the route"
        start = start if self.role else f"{start} from this machine"
        return f"{start} to the endpoint of the cluster, and the cluster's `publicAccessCidrs`: {command}."

    def explain(self, error: ApiError, *, was_accepted: bool) -> None:
        """Replace the text of an error by its cause, with the cluster and the next step.

        Args:
            was_accepted: True if the API server has accepted a token of this process before.
        """
        if isinstance(error, NoReplyError):
            error.explain(error.what, self.route_step)
        elif error.code == UNAUTHORIZED and was_accepted:
            step = "" if self.role else "If your credentials have expired, renew them; otherwise try again later."
            error.explain(f"{self.title} no longer accepts {self.caller}.", step)
        elif error.code == UNAUTHORIZED:
            error.explain(f"{self.title} does not accept {self.caller}.", self.entry_step)
        elif is_missing_permission(error):
            message = error.message.rstrip(".") or "Forbidden"
            error.explain(f"{self.title} does not allow this request of {self.caller}: {message}.", self._group_step)
        else:
            error.explain(f"{self.title} replied {error.reply}.")

    @property
    def _commands(self) -> Commands:
        return Commands(self.region, self.cluster.cluster)

    @property
    def _group_step(self) -> str:
        """The next step if the permissions of the caller are not sufficient."""
        if self.role:
            return self.objects_step
        group = names.kubernetes_group(self.grid, "use")
        lacking = f"Your access entry needs the group {group}. If it has this group, the group lacks permissions"
        return f"{lacking}: {self.objects_step[:1].lower()}{self.objects_step[1:]}"


def is_missing_permission(error: ApiError) -> bool:
    """Return True if RBAC refused a request; an admission webhook, for example, replies 403, too."""
    return error.code == FORBIDDEN and (not error.message or bool(_RBAC.search(error.message)))
