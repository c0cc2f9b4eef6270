"""Clusters of EKS in a local AWS, and requests of principals to their API."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import urllib3
from botocore.credentials import Credentials
from botocore.signers import RequestSigner

REGION = "eu-west-1"
JOBS = "/apis/batch/v1/namespaces/training/jobs"
CLUSTER_TRUST = {"Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
USER_TRUST = {"Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "sts:AssumeRole"}
POD_TRUST = {"Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": ["sts:AssumeRole", "sts:TagSession"]}

Clients = Callable[..., Any]


def role(client: Clients, name: str, trust: Mapping[str, Any], path: str = "/") -> str:
    """Create a role; return its ARN."""
    document = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **trust}]})
    made = client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document, Path=path)
    return str(made["Role"]["Arn"])


def subnets(client: Clients, region: str = REGION) -> list[str]:
    """Return the subnets of the default VPC."""
    return [subnet["SubnetId"] for subnet in client("ec2", region).describe_subnets()["Subnets"]]


def wanted(client: Clients, name: str, **members: Any) -> dict[str, Any]:
    """Return a request of CreateCluster with access entries."""
    return {
        "name": name,
        "roleArn": "arn:aws:iam::123456789012:role/cluster",
        "resourcesVpcConfig": {"subnetIds": subnets(client)},
        "accessConfig": {"authenticationMode": "API"},
        **members,
    }


def session(client: Clients, role_name: str, session_name: str = "someone") -> Credentials:
    """Return temporary credentials of a role."""
    arn = f"arn:aws:iam::123456789012:role/{role_name}"
    issued = client("sts").assume_role(RoleArn=arn, RoleSessionName=session_name)["Credentials"]
    return Credentials(issued["AccessKeyId"], issued["SecretAccessKey"], issued["SessionToken"])


def presigned(credentials: Credentials, cluster: str, endpoint: str, **changed: Any) -> str:
    """Return a presigned call of GetCallerIdentity with the header of a cluster."""
    signer = RequestSigner(
        boto3.Session().client("sts", region_name=REGION, endpoint_url=endpoint).meta.service_model.service_id,
        REGION,
        "sts",
        "v4",
        credentials,
        boto3.Session().events,
    )
    action = changed.get("action", "GetCallerIdentity")
    request = {
        "method": "GET",
        "url": f"{endpoint}/?Action={action}&Version=2011-06-15",
        "body": {},
        "headers": changed.get("headers", {"x-k8s-aws-id": cluster}),
        "context": {},
    }
    return str(signer.generate_presigned_url(request, action, expires_in=changed.get("expires", 60)))


def encoded(url: str) -> str:
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


@dataclass(frozen=True)
class Sender:
    """A sender of requests to a cluster.

    Attributes:
        address: The address of the cluster.
        authority: The certificate, which the sender trusts.
        token: The token of the sender.
    """

    address: str
    authority: str
    token: str

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of a reply."""
        pool = urllib3.PoolManager(ca_cert_data=self.authority, retries=False)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        reply = pool.request(method, self.address + path, body=content, headers=headers, timeout=30)
        return reply.status, json.loads(reply.data)


def sender(client: Clients, name: str, token: str) -> Sender:
    """Return a sender of requests to a cluster, from its description."""
    described = client("eks", REGION).describe_cluster(name=name)["cluster"]
    authority = base64.b64decode(described["certificateAuthority"]["data"]).decode()
    return Sender(described["endpoint"], authority, token)
