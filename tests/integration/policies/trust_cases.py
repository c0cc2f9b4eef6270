"""Trust policies: only its service may assume a role, and only for this account if the service names an account."""

from collections.abc import Iterator

from localcloud.iam.request_keys import Context
from tests.integration.policies.case import IMPLICITLY, Case
from tests.integration.policies.grid import ACCOUNT, CLUSTER, FREE, HOME, INSIDE

ACTION, PRINCIPAL = "sts:AssumeRole", "the principal"
PODS = "pods.eks"
"""The service that assumes a role for pods."""

WITH_SOURCE = {
    "child": ("ecs-tasks", f"arn:aws:ecs:{HOME}:{ACCOUNT}:task/x"),
    "flow logs": ("vpc-flow-logs", f"arn:aws:ec2:{HOME}:{ACCOUNT}:vpc-flow-log/fl-0123"),
    "orchestrator build": ("codebuild", f"arn:aws:codebuild:{HOME}:{ACCOUNT}:project/x"),
    "training build": ("codebuild", f"arn:aws:codebuild:{HOME}:{ACCOUNT}:project/x"),
    "replication wait": ("codebuild", f"arn:aws:codebuild:{HOME}:{ACCOUNT}:project/x"),
    "training job": ("sagemaker", f"arn:aws:sagemaker:{INSIDE}:{ACCOUNT}:training-job/traingrid-0123abcd-0-1"),
    "event forwarding": ("events", f"arn:aws:events:{INSIDE}:{ACCOUNT}:rule/traingrid-forward"),
}
"""Services that state the account and resource for which they assume a role, with an example."""

WITHOUT_SOURCE = {
    "start of a child": "ecs-tasks",
    **dict.fromkeys(("intake", "recorder", "reconciler", "registrar", "follower", "image builder"), "lambda"),
}
"""Services without a documented condition of this kind. A role can only be passed to them in its own account."""


def cases() -> Iterator[Case]:
    for role, service in WITHOUT_SOURCE.items():
        yield _case(role, "be assumed by its service", service, {})
        yield _case(role, "be assumed by another service", "ec2", {}, breaks=PRINCIPAL)
    for role, (service, source) in WITH_SOURCE.items():
        here: Context = {"aws:SourceAccount": ACCOUNT, "aws:SourceArn": source}
        yield _case(role, "be assumed by its service", service, here)
        yield _case(role, "be assumed by another service", "ec2", here, breaks=PRINCIPAL)
        account: Context = {**here, "aws:SourceAccount": "999999999999"}
        yield _case(role, "serve another account", service, account, breaks="StringEquals aws:SourceAccount")
        arn: Context = {**here, "aws:SourceArn": source.replace(ACCOUNT, "999999999999")}
        yield _case(role, "serve another account's resource", service, arn, breaks="ArnLike aws:SourceArn")
        missing: Context = {"aws:SourceArn": source}
        yield _case(role, "serve an unnamed account", service, missing, breaks="StringEquals aws:SourceAccount")
    yield from _pods()


def _pods() -> Iterator[Case]:
    """Yield the cases of EKS, which assumes the role of training jobs for pods, with their names as session tags."""
    cluster = f"arn:aws:eks:{INSIDE}:{ACCOUNT}:cluster/{CLUSTER}"
    tags = {"eks-cluster-arn": cluster, "kubernetes-namespace": "training", "kubernetes-service-account": "jobs"}
    here: Context = {f"aws:RequestTag/{tag}": value for tag, value in tags.items()}
    others = {
        "eks-cluster-arn": (f"{cluster}2", cluster.replace(ACCOUNT, "999999999999"), cluster.replace(INSIDE, FREE)),
        "kubernetes-namespace": ("default", "training2"),
        "kubernetes-service-account": ("default",),
    }
    for action in (ACTION, "sts:TagSession"):
        yield _case("training job", "be assumed for its pods", PODS, here, action=action)
        yield _case("training job", "be assumed by nodes", "ec2", here, breaks=PRINCIPAL, action=action)
        for tag, values in others.items():
            key = f"aws:RequestTag/{tag}"
            for value in values:
                pod: Context = {**here, key: value}
                phrase = f"be assumed for pods of {value}"
                yield _case("training job", phrase, PODS, pod, breaks=f"StringEquals {key}", action=action)
            without: Context = {name: value for name, value in here.items() if name != key}
            phrase = f"be assumed for pods without {tag}"
            yield _case("training job", phrase, PODS, without, breaks=f"StringEquals {key}", action=action)


def _case(role: str, phrase: str, service: str, context: Context, *, breaks: str = "", action: str = ACTION) -> Case:
    return Case(
        role=role,
        phrase=phrase,
        action=action,
        resource=f"arn:aws:iam::{ACCOUNT}:role/{role.replace(' ', '-')}",
        context=context,
        expected=IMPLICITLY if breaks else "Allowed",
        breaks=breaks,
        by=f"{service}.amazonaws.com",
    )
