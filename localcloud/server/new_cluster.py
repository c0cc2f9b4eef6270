"""New cluster: creates a cluster in a running server for `localcloud cluster`."""

import json
from typing import Any

import boto3
from botocore.exceptions import ClientError

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.eks.clusters import OPERATOR_TAG
from localcloud.server.state_file import Running

_ROLE = "localcloud-eks-cluster"


def new_cluster(running: Running, name: str, region: str, *, with_operator: bool, account: str = "") -> str:
    """Create a cluster with access entries, whose administrator is the account's user; return its ARN.

    Args:
        with_operator: Install the MPI operator of Kubeflow.
        account: Its account, if it is not the server's.

    Raises:
        ClientError: EKS refuses the cluster.
    """
    subnets = _client(running, "ec2", region, account).describe_subnets()["Subnets"]
    tags = {} if with_operator else {"tags": {OPERATOR_TAG: "none"}}
    reply = _client(running, "eks", region, account).create_cluster(
        name=name,
        roleArn=_role(_client(running, "iam", region, account)),
        resourcesVpcConfig={"subnetIds": [subnet["SubnetId"] for subnet in subnets]},
        accessConfig={"authenticationMode": "API"},
        **tags,
    )
    return str(reply["cluster"]["arn"])


def _role(iam: Any) -> str:
    """Return the ARN of the role of clusters; it is created if it does not exist."""
    statement = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    try:
        return str(iam.create_role(RoleName=_ROLE, AssumeRolePolicyDocument=document)["Role"]["Arn"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "EntityAlreadyExists":
            raise
        return str(iam.get_role(RoleName=_ROLE)["Role"]["Arn"])


def _client(running: Running, service: str, region: str, account: str) -> Any:
    key = f"{DUMMY_KEY}-{account}" if account else DUMMY_KEY
    session: Any = boto3.Session(aws_access_key_id=key, aws_secret_access_key=running.secret)
    return session.client(service, region_name=region, endpoint_url=running.endpoint)
