"""Networks of functions: refuses subnets and roles with which AWS could not connect a function.

A connected function runs like any other here: localcloud's functions reach its API, and no address of a VPC.
"""

from typing import Any

from moto.awslambda.exceptions import LambdaClientError
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends

from localcloud.credentials.arn import account_of_arn, name_of_arn
from localcloud.iam.evaluation import verdict
from localcloud.iam.roles import policies_of

_INTERFACES = "network-interface/*"
_REQUIRED = {
    "CreateNetworkInterface": _INTERFACES,
    "DescribeNetworkInterfaces": "",
    "DeleteNetworkInterface": _INTERFACES,
}
"""Actions without which Lambda refuses the role, with their resources
(https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions)."""


def check_network(network: dict[str, Any] | None, role: str, region: str) -> None:
    """Refuse a VpcConfig with which AWS could not connect a function.

    Args:
        network: The VpcConfig of the request, if it has one.
        role: The ARN of the function's role.

    Raises:
        LambdaClientError: The role lacks a permission (https://github.com/webiny/webiny-js/issues/2580), only one of
            both lists has ids (https://github.com/aws/aws-sdk-js/issues/1293), or an id does not exist
            (https://github.com/localstack/localstack/pull/12293).
    """
    subnets = (network or {}).get("SubnetIds") or []
    groups = (network or {}).get("SecurityGroupIds") or []
    if bool(subnets) != bool(groups):
        raise _refused("SubnetIds and SecurityIds must coexist or be both empty list.")
    if not subnets:
        return
    account = account_of_arn(role)
    documents = policies_of(name_of_arn(role), account) or []
    for action, kind in _REQUIRED.items():
        resource = f"arn:aws:ec2:{region}:{account}:{kind}" if kind else "*"
        if verdict(documents, f"ec2:{action}", resource, {}) != "Allowed":
            raise _refused(f"The provided execution role does not have permissions to call {action} on EC2")
    ec2 = ec2_backends[account][region]
    try:
        ec2.describe_subnets(subnet_ids=subnets)
    except EC2ClientError as error:
        raise _refused(_error_of_ec2("DescribeSubnets", error)) from error
    try:
        ec2.describe_security_groups(group_ids=groups)
    except EC2ClientError as error:
        raise _refused(_error_of_ec2("DescribeSecurityGroups", error)) from error


def _error_of_ec2(action: str, error: EC2ClientError) -> str:
    code, message = error.code, error.message
    return f"Error occurred while {action}. EC2 Error Code: {code}. EC2 Error Message: {message}"


def _refused(message: str) -> LambdaClientError:
    return LambdaClientError("InvalidParameterValueException", message)
