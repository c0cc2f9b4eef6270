"""Uses of condition keys that no claim can check in localcloud, each with the reason and a documented claim."""

from typing import NamedTuple

from tests.integration.conformance.condition_uses import Use


class Reason(NamedTuple):
    """Why localcloud cannot check a use, and the claim that states it with its source."""

    text: str
    claim: str


def _trust(principal: str, actions: str, operator: str, key: str, about: str = "") -> Use:
    return Use("Allow", principal, actions, operator, key, about)


_ENDPOINTS = Reason("localcloud has no VPC, so no endpoint", "endpoint_knows_the_account_of_a_caller")
_FLOW_LOGS = Reason("localcloud delivers no flow logs", "flow_log_is_delivered_with_a_limited_trust")
_PODS = Reason("the credentials of a pod take a pod on a node", "pod_is_known_by_the_tags_of_its_session")
_POD_ACTIONS = "sts:AssumeRole sts:TagSession"

REASONS: dict[Use, Reason] = {
    **{
        _trust("*", f"{service}:*", "StringEquals", "aws:PrincipalAccount"): _ENDPOINTS
        for service in ("batch", "dynamodb", "ecr", "logs", "s3", "sagemaker", "sts")
    },
    _trust("vpc-flow-logs", "sts:AssumeRole", "StringEquals", "aws:SourceAccount"): _FLOW_LOGS,
    _trust("vpc-flow-logs", "sts:AssumeRole", "ArnLike", "aws:SourceArn", "ec2:vpc-flow-log"): _FLOW_LOGS,
    _trust("pods.eks", _POD_ACTIONS, "StringEquals", "aws:RequestTag/eks-cluster-arn", "eks:cluster"): _PODS,
    _trust("pods.eks", _POD_ACTIONS, "StringEquals", "aws:RequestTag/kubernetes-namespace"): _PODS,
    _trust("pods.eks", _POD_ACTIONS, "StringEquals", "aws:RequestTag/kubernetes-service-account"): _PODS,
    _trust("accounts", "ecr:DescribeImages", "ArnEquals", "aws:PrincipalArn", "iam:role"): Reason(
        "the policy of a repository matters to other accounts only, and a run has one account",
        "repository_may_be_limited_to_a_role",
    ),
    _trust("cloudwatch", "sns:Publish", "StringEquals", "aws:SourceAccount"): Reason(
        "alarms have no actions in localcloud", "alarm_that_is_set_tells_its_topic"
    ),
    _trust("", "elasticfilesystem:ClientMount", "Bool", "elasticfilesystem:AccessedViaMountTarget"): Reason(
        "localcloud's file systems are folders", "file_system_knows_its_mount_targets"
    ),
    _trust("", "ec2:DeleteNetworkInterfacePermission", "ArnEquals", "ec2:Subnet", "ec2:subnet"): Reason(
        "only AWS's services and partners are given a permission on an interface, so a claim has none to delete",
        "subnet_of_interfaces_may_be_limited",
    ),
    _trust("", "kms:GenerateDataKey", "StringEquals", "kms:ViaService", "dynamodb"): Reason(
        "no source states that a call for an item generates a data key", "key_may_be_limited_to_a_service"
    ),
}
