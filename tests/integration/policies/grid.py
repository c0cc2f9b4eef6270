"""Test grid: its configuration, and the policies that its templates grant to each role.

It uses every setting that affects IAM policies: Regions with and without a VPC, a maximum runtime, isolation,
encryption, a training plan, file systems, an EKS cluster, a reconciler in subnets, a service queue of each kind, and
data that must stay in its Region, which for `FREE` does not apply to checkpoints; those of `INSIDE` must stay.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from tests.integration.stacks.templates import Template, a_grid, policies, resources, synthesise
from traingrid.grid.eks import EksCluster
from traingrid.grid.model import GridSettings
from traingrid.names import Part

ACCOUNT, HOME, INSIDE, FREE = "123456789012", "us-east-1", "us-east-1", "us-west-2"
SUBNETS, GROUPS = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"], ["sg-0123456789abcdef0"]
EFS, LUSTRE = "fs-0123456789abcdef0", "fs-0123456789abcdef1"
"""The file systems that lines may mount, in `INSIDE`."""

PLAN = "november"
"""The only training plan that lines may use, in `INSIDE`."""

CLUSTER = "research"
"""The EKS cluster in `INSIDE`."""

YOUR_KEY = f"arn:aws:kms:{INSIDE}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"

SOURCE = "source.zip"
"""Replacement for the names of CDK assets, which are hashes of their content."""

Document = dict[str, Any]


class Place(NamedTuple):
    """Location of a role: its stack, and its logical id without CloudFormation's hash."""

    stack: str
    prefix: str


CATALOG = "traingrid-control with a catalog"
"""The control stack of a grid with `catalog: dsql`, which is refused together with the keys of the test grid."""

ROLES = {
    "child": Place("traingrid-control", "OrchestratorRole"),
    "start of a child": Place("traingrid-control", "OrchestratorPullRole"),
    "intake": Place("traingrid-control", "IntakeAcceptRole"),
    "recorder": Place("traingrid-control", "JobEventsRecordRole"),
    "reconciler": Place("traingrid-control", "ReconcilerSweepRole"),
    "registrar": Place("traingrid-control", "DatasetsRegisterRole"),
    "region guard": Place("traingrid-control", "GuardAnswerRole"),
    "follower": Place(CATALOG, "CatalogFollowerFollowRole"),
    "flow logs": Place("traingrid-control", "OrchestratorNetworkFlowLogRole"),
    "orchestrator build": Place("traingrid-builds", "OrchestratorBuildRole"),
    "training build": Place("traingrid-builds", "TrainingBuildgpuRole"),
    "replication wait": Place("traingrid-builds", "ReplicationWaitRole"),
    "image builder": Place("traingrid-builds", "BuilderBuildRole"),
    "training job": Place(f"traingrid-{INSIDE}", "ExecutionRole"),
    "event forwarding": Place(f"traingrid-{INSIDE}", "ForwardingRole"),
}
"""Every role of a grid in one account. The roles of the second Region equal those of the first, except for the VPC."""

PARTS: tuple[Part, ...] = get_args(Part)
"""Roles of a training Region in another account: one for each part of the control plane, and one for users."""


def the_grid() -> GridSettings:
    return _with_reconciler(with_cluster(_without_cluster()))


def with_cluster(grid: GridSettings) -> GridSettings:
    """Return a grid with a cluster in `INSIDE`.

    The copy is not validated, because a grid with a cluster cannot isolate training jobs from the network; each of both
    has its own statements, and the test grid has all of them.
    """
    cluster = EksCluster(cluster=CLUSTER, namespace="training", service_account="jobs")
    inside = grid.regions[INSIDE].model_copy(update={"eks": cluster})
    return grid.model_copy(update={"regions": {**grid.regions, INSIDE: inside}})


def _with_reconciler(grid: GridSettings) -> GridSettings:
    """Return a grid whose reconciler runs in the children's subnets.

    The copy is not validated: only an existing network can have it, which has no flow logs.
    """
    return grid.model_copy(update={"network": grid.network.model_copy(update={"reconciler": True})})


def _without_cluster() -> GridSettings:
    return a_grid(
        {
            INSIDE: {
                "subnets": SUBNETS,
                "security_groups": GROUPS,
                "file_systems": {EFS: "EFS", LUSTRE: "FSxLustre"},
                "data_buckets": ["mine-east"],
                "data_keys": [YOUR_KEY],
                "training_plans": [PLAN],
                "service_queue": {"instances": 16},
                "checkpoint_residency": [INSIDE],
            },
            FREE: {
                "service_queue": {"quota_shares": {"research": {"ml.p4d.24xlarge": 4}}},
                "residency": [FREE],
                "checkpoint_residency": [FREE, INSIDE],
            },
        },
        images={"resnet": {"build": "training", "target": "gpu"}},
        on_dataset=[{"name": "night"}],
        shares={"research": 1},
        job={"image": "resnet", "instance_type": "ml.g5.48xlarge", "share": "research"},
        encryption="kms",
        network="private",
        moves=True,
        notifications={},
        instance_types=["ml.p4d.24xlarge"],
        image_registries=["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training"],
        training={"max_runtime": "2d", "network_isolation": True, "encrypt_traffic": True},
    )


def the_templates(layer: Path, grid: GridSettings | None = None) -> dict[str, Template]:
    """Return the templates of a grid, by default the test grid, in which ARNs replace all references."""
    made = synthesise(grid or the_grid(), layer)
    made = {stack: _with_outputs(template, made) for stack, template in made.items()}
    return {
        stack: _filled(template, template, stack.removeprefix("traingrid-") if stack in _OF_REGIONS else HOME)
        for stack, template in made.items()
    }


def every_template(layer: Path) -> dict[str, Template]:
    """Return the templates of the test grid, and the control stack of one with a catalog in Aurora DSQL."""
    with_catalog = the_templates(layer, a_grid({INSIDE: None}, catalog="dsql"))
    return {**the_templates(layer), CATALOG: with_catalog["traingrid-control"]}


def roles(template: Template) -> dict[str, Document]:
    """Return the properties of a template's roles, by logical id without CloudFormation's hash."""
    return {name[:-8]: role["Properties"] for name, role in resources(template, "AWS::IAM::Role").items()}


def documents(templates: Mapping[str, Template], role: str) -> list[Document]:
    """Return the permission policies of a role."""
    place = ROLES[role]
    return [
        policy["Properties"]["PolicyDocument"]
        for policy in policies(templates[place.stack])
        if place.prefix in policy["Properties"]["Roles"]
    ]


def trust(templates: Mapping[str, Template], role: str) -> Document:
    """Return the trust policy of a role."""
    place = ROLES[role]
    document: Document = roles(templates[place.stack])[place.prefix]["AssumeRolePolicyDocument"]
    return document


_OF_REGIONS = {f"traingrid-{region}" for region in (INSIDE, FREE)}
_ARNS = {
    "AWS::DSQL::Cluster": "arn:aws:dsql:{region}:{account}:cluster/{name}",
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:{region}:{account}:table/{name}",
    "AWS::SNS::Topic": "arn:aws:sns:{region}:{account}:{name}",
    "AWS::SQS::Queue": "arn:aws:sqs:{region}:{account}:{name}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{name}:*",
    "AWS::Batch::JobQueue": "arn:aws:batch:{region}:{account}:job-queue/{name}",
    "AWS::ECR::Repository": "arn:aws:ecr:{region}:{account}:repository/{name}",
    "AWS::S3::Bucket": "arn:aws:s3:::{name}",
    "AWS::CodeBuild::Project": "arn:aws:codebuild:{region}:{account}:project/{name}",
    "AWS::KMS::Key": "arn:aws:kms:{region}:{account}:key/{name}",
    "AWS::IAM::Role": "{name}",
}
_NAMES = {
    "AWS::Batch::JobQueue": "JobQueueName",
    "AWS::ECR::Repository": "RepositoryName",
    "AWS::S3::Bucket": "BucketName",
}


def _with_outputs(value: Any, made: Mapping[str, Template]) -> Any:
    """Return a part of a template in which values replace the outputs of other stacks."""
    match value:
        case {"Fn::GetStackOutput": {"StackName": stack, "OutputName": name}}:
            return _filled(made[stack]["Outputs"][name]["Value"], made[stack], HOME)
        case dict():
            return {key: _with_outputs(item, made) for key, item in value.items()}
        case list():
            return [_with_outputs(item, made) for item in value]
    return value


def _filled(value: Any, template: Template, region: str) -> Any:
    filled = value
    match value:
        case {"Ref": "AWS::AccountId"}:
            filled = ACCOUNT
        case {"Ref": "AWS::Region"}:
            filled = region
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]} if name in template["Resources"]:
            filled = _arn_of(name, template, region)
        case {"Fn::Sub": str(text)}:
            filled = text.replace("${AWS::AccountId}", ACCOUNT)
        case str():
            filled = re.sub(r"/[0-9a-f]{64}\.zip$", f"/{SOURCE}", value)
        case {"Fn::Join": [delimiter, parts]}:
            filled = str(delimiter).join(str(_filled(part, template, region)) for part in parts)
        case dict():
            filled = {key: _filled(item, template, region) for key, item in value.items()}
        case list():
            filled = [_filled(item, template, region) for item in value]
    return filled


def _arn_of(logical: str, template: Template, region: str) -> str:
    resource = template["Resources"][logical]
    kind, called = resource["Type"], logical[:-8]  # the logical id without its hash replaces a missing name
    name = _filled(resource.get("Properties", {}).get(_NAMES.get(kind, ""), called), template, region)
    return _ARNS.get(kind, "<{name}>").format(region=region, account=ACCOUNT, name=name)
