"""EKS: a cluster without nodes, and requests of roles to its API."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import urllib3

from conformance.resources.identity import role

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.aws import Aws

_POLICY = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
_ZONES = 2


class Cluster:
    """A cluster in the home Region with access entries only, in the default VPC."""

    def __init__(self, aws: Aws) -> None:
        self.aws, self.api, self.name = aws, aws.client("eks"), aws.name("cluster")
        arn = role(aws, "cluster", {"Service": "eks.amazonaws.com"})
        iam, owner = aws.client("iam"), arn.rpartition("/")[2]
        iam.attach_role_policy(RoleName=owner, PolicyArn=_POLICY)
        aws.undo.later(f"policy of {owner}", lambda: iam.detach_role_policy(RoleName=owner, PolicyArn=_POLICY))
        ec2 = aws.client("ec2")
        subnets = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
        aws.undo.later(f"cluster {self.name}", self._delete)
        self.api.create_cluster(
            name=self.name,
            roleArn=arn,
            resourcesVpcConfig={"subnetIds": [subnet["SubnetId"] for subnet in subnets][:_ZONES]},
            accessConfig={"authenticationMode": "API"},
            tags=aws.tag_map,
        )
        self.described = aws.wait(self._active, f"cluster {self.name}")
        authority = base64.b64decode(self.described["certificateAuthority"]["data"]).decode()
        self._pool = urllib3.PoolManager(ca_cert_data=authority)

    @classmethod
    def of(cls, aws: Aws) -> Cluster:
        """Return the cluster that claims share."""
        return aws.once("cluster", lambda: cls(aws))

    def token(self, client: Callable[..., Any], name: str = "") -> str:
        """Return a token of the credentials of a client.

        Args:
            client: Makes clients.
            name: The cluster that it is signed for; by default this one.
        """
        sts = client("sts")
        header = name or self.name

        def add_header(request: Any, **_: Any) -> None:
            request.headers["x-k8s-aws-id"] = header

        sts.meta.events.register("before-sign.sts.GetCallerIdentity", add_header)
        url = sts.generate_presigned_url("get_caller_identity", ExpiresIn=60, HttpMethod="GET")
        sts.meta.events.unregister("before-sign.sts.GetCallerIdentity", add_header)
        return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")

    def ask(self, token: str, path: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the content of the reply to GET."""
        headers = {"Authorization": f"Bearer {token}"}
        reply = self._pool.request("GET", self.described["endpoint"] + path, headers=headers, timeout=30)
        return reply.status, json.loads(reply.data)

    def enter(self, client: Callable[..., Any], **entry: Any) -> str:
        """Create an access entry for the role of a client; return the role's ARN."""
        session = client("sts").get_caller_identity()["Arn"]
        arn = f"arn:aws:iam::{self.aws.account}:role/{session.split('/')[1]}"
        self.api.create_access_entry(clusterName=self.name, principalArn=arn, **entry)
        return arn

    def _active(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.describe_cluster(name=self.name)["cluster"]
        return found if found["status"] == "ACTIVE" else {}

    def _delete(self) -> None:
        with suppress(self.api.exceptions.ResourceNotFoundException):
            self.api.delete_cluster(name=self.name)
            self.aws.wait(self._is_gone, f"the deletion of {self.name}")

    def _is_gone(self) -> bool:
        with suppress(self.api.exceptions.ResourceNotFoundException):
            return not self.api.describe_cluster(name=self.name)
        return True
