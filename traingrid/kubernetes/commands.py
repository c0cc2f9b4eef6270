"""Commands: the commands of users for one cluster, as errors and `traingrid doctor` name them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Commands:
    """The commands for a cluster.

    Attributes:
        cluster: The cluster's name.
    """

    region: str
    cluster: str

    @property
    def options(self) -> str:
        """The options of `aws eks` for the cluster; those for its access entries have other names."""
        return f"--region {self.region} --name {self.cluster}"

    @property
    def kubeconfig(self) -> str:
        """The command that adds the cluster to the configuration of kubectl, as a context with the cluster's name."""
        return f"aws eks update-kubeconfig {self.options} --alias {self.cluster}"

    def kubectl(self, arguments: str) -> str:
        """Return a command of kubectl that does not depend on its current context."""
        return f"kubectl --context {self.cluster} {arguments}"

    @property
    def apply_access(self) -> str:
        """The command that creates the namespace and the permissions of the grid, for an administrator."""
        return f"traingrid eks access {self.region} | {self.kubectl('apply -f -')}"

    def access_entry(self, action: str, principal: str) -> str:
        """Return a command for the access entry of a principal.

        Args:
            action: The action: `create`, `describe`, `update` or `delete`.
            principal: The ARN of the principal.
        """
        entry = f"--region {self.region} --cluster-name {self.cluster} --principal-arn {principal}"
        return f"aws eks {action}-access-entry {entry}"
