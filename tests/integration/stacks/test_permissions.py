"""Least privilege: the permissions of every role, statement by statement."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam

from batch_job.service_models import OPERATIONS
from stacks.grants import grant
from stacks.role_limits import refuse_long_policies
from tests.integration.stacks.templates import (
    REGIONS,
    Template,
    a_grid,
    actions,
    allowed,
    as_list,
    assembly,
    flat,
    on,
    policies,
    resources,
    statements,
    synthesise,
)
from traingrid.errors import UsageError

INTAKE, CHILD, RECORDER, EXECUTION = "IntakeAcceptRole", "OrchestratorRole", "JobEventsRecordRole", "ExecutionRole"
RECONCILER = "ReconcilerSweepRole"


def test_no_role_has_a_managed_policy(control: Template, oregon: Template) -> None:
    for template in (control, oregon):
        for role in resources(template, "AWS::IAM::Role").values():
            assert "ManagedPolicyArns" not in role["Properties"]
            assert "Policies" not in role["Properties"]


def test_more_regions_than_the_policies_of_a_role_can_name_are_refused_before_a_deployment(layer: Path) -> None:
    more = ("ap-south-1", "ap-northeast-2", "ap-southeast-1", "eu-west-2", "eu-west-3", "us-west-1", "eu-south-1")
    queue = {"service_queue": {"instances": 2}}
    grids = [a_grid(dict.fromkeys(regions, queue)) for regions in (REGIONS[:4], [*REGIONS, *more, "ap-east-1"])]
    refuse_long_policies(assembly(grids[0], layer))
    with pytest.raises(UsageError, match=r"needs 1\d managed policies.* at most 10 to a role. Remove Regions, or"):
        refuse_long_policies(assembly(grids[1], layer))


def test_a_child_passes_exactly_the_execution_roles_and_only_to_sagemaker(control: Template) -> None:
    passing = [statement for statement in statements(control) if "iam:PassRole" in statement["Action"]]
    assert len(passing) == 1
    (statement,) = [statement for statement in statements(control, CHILD) if "iam:PassRole" in statement["Action"]]
    assert sorted(statement["Resource"]) == sorted(
        f"arn:aws:iam::<AWS::AccountId>:role/traingrid-execution-{region}" for region in REGIONS[:4]
    )
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}


EUROPE: dict[str, Any] = {"residency": ["eu"]}
STAYS: dict[str, Any] = {"residency": ["ap-south-1"], "data_buckets": ["mine-mumbai"]}
COPY_SOURCE = "s3:x-amz-copy-source"
COPIES = {"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:ListBucketMultipartUploads"}


def of_data_buckets(control: Template) -> set[str]:
    """Return the actions on objects of data buckets that a child has."""
    return {
        action
        for statement in statements(control, CHILD)
        for action in as_list(statement["Action"])
        if action.startswith("s3:") and any("-data-" in str(resource) for resource in statement["Resource"])
    }


def test_a_child_may_copy_data_only_with_moves(control: Template, layer: Path) -> None:
    assert of_data_buckets(control) == {"s3:ListBucket"}
    moving = synthesise(a_grid(2, moves=True), layer)
    assert of_data_buckets(moving["traingrid-control"]) == {"s3:ListBucket", "s3:GetObject", "s3:PutObject", *COPIES}
    endpoints = resources(moving["traingrid-control"], "AWS::EC2::VPCEndpoint").values()
    assert len(endpoints) == 1, "S3's endpoint would refuse copies from other Regions"
    assert len(resources(control, "AWS::EC2::VPCEndpoint")) == 2


def test_a_child_copies_no_data_out_of_the_residency_of_a_region(layer: Path) -> None:
    """Regions from which the same data may be copied share a statement."""
    european = {**EUROPE, "data_buckets": ["mine-dublin"]}
    regions = {"us-east-1": {}, "us-west-2": {}, "eu-west-1": european, "eu-central-1": EUROPE, "ap-south-1": STAYS}
    control = synthesise(a_grid(regions, moves=True), layer)["traingrid-control"]

    def own(*named: str) -> set[str]:
        """Return the buckets of data, and those of models, of Regions."""
        return {f"traingrid-{kind}-<AWS::AccountId>-{region}" for kind in ("data", "output") for region in named}

    american = own("us-east-1", "us-west-2")
    found = {
        frozenset(arn.removeprefix("arn:aws:s3:::").partition("/")[0] for arn in as_list(statement["Resource"])): {
            flat(source).partition("/")[0] for source in statement["Condition"]["StringLikeIfExists"][COPY_SOURCE]
        }
        for statement in statements(control, CHILD)
        if "s3:PutObject" in statement["Action"] and "-data-" in str(statement["Resource"])
    }
    assert found == {
        frozenset(american): american,
        frozenset(own("eu-west-1", "eu-central-1")): {*american, *own("eu-west-1", "eu-central-1"), "mine-dublin"},
        frozenset(own("ap-south-1")): {*american, *own("ap-south-1"), "mine-mumbai"},
    }
    readable = {resource for resource in on(control, CHILD, "s3:GetObject") if "mine-" in resource}
    assert readable == {"arn:aws:s3:::mine-dublin/*"}, "data of ap-south-1 may be copied nowhere"


def created(control: Template) -> list[dict[str, Any]]:
    return [entry for entry in allowed(control) if "sagemaker:CreateTrainingJob" in entry["Action"]]


def test_a_child_may_create_jobs_only_as_grid_yaml_allows(control: Template) -> None:
    (statement,) = created(control)
    assert sorted(statement["Resource"]) == sorted(
        f"arn:aws:sagemaker:{region}:<AWS::AccountId>:training-job/traingrid-????????-*" for region in REGIONS[:4]
    )
    ours = [f"aws:RequestTag/traingrid:{tag}" for tag in ("submission", "job", "fingerprint")]
    assert statement["Condition"] == {
        "StringEquals": {"aws:RequestTag/traingrid:grid": "traingrid"},
        "ForAllValues:StringEquals": {"sagemaker:InstanceTypes": ["ml.g5.48xlarge"]},
        "Null": {
            **dict.fromkeys(("sagemaker:InstanceTypes", *ours), "false"),
            **dict.fromkeys(
                ("sagemaker:VpcSubnets", "sagemaker:VpcSecurityGroupIds", "sagemaker:FileSystemId"), "true"
            ),
        },
        "NumericLessThanEquals": {"sagemaker:MaxRuntimeInSeconds": str(28 * 24 * 3600)},
        "Bool": {"sagemaker:InterContainerTrafficEncryption": "true"},
    }
    (tagging,) = [entry for entry in statements(control) if "sagemaker:AddTags" in entry["Action"]]
    assert tagging["Condition"] == {"StringEquals": {"sagemaker:TaggingAction": "CreateTrainingJob"}}


def test_every_for_all_values_condition_has_a_null_condition(control: Template) -> None:
    compared = {
        key: statement["Condition"].get("Null", {})
        for statement in created(control)
        for operator, keys in statement["Condition"].items()
        if operator.startswith("ForAllValues:")
        for key in keys
    }
    assert compared
    assert {null.get(key) for key, null in compared.items()} == {"false"}


def test_a_region_with_a_vpc_requires_its_subnets(layer: Path) -> None:
    vpc = {"subnets": ["subnet-0123456789abcdef0"], "security_groups": ["sg-0123456789abcdef0"]}
    grid = a_grid({"us-east-1": vpc, "eu-west-1": {}}, training={"max_runtime": "2d", "encrypt_traffic": False})
    made = synthesise(grid, layer)
    free, inside = created(made["traingrid-control"])
    assert [resource.split(":")[3] for resource in (*free["Resource"], *inside["Resource"])] == [
        "eu-west-1",
        "us-east-1",
    ]
    assert inside["Condition"]["ForAllValues:StringEquals"] == {
        "sagemaker:InstanceTypes": ["ml.g5.48xlarge"],
        "sagemaker:VpcSubnets": vpc["subnets"],
        "sagemaker:VpcSecurityGroupIds": vpc["security_groups"],
    }
    assert inside["Condition"]["Null"]["sagemaker:VpcSubnets"] == "false"
    assert free["Condition"]["Null"]["sagemaker:VpcSubnets"] == "true"
    assert inside["Condition"]["NumericLessThanEquals"] == {"sagemaker:MaxRuntimeInSeconds": "172800"}
    assert "Bool" not in inside["Condition"]
    assert not {action for action in actions(made["traingrid-eu-west-1"], EXECUTION) if action.startswith("ec2:")}
    assert on(made["traingrid-us-east-1"], EXECUTION, "ec2:CreateNetworkInterface") == {
        f"arn:aws:ec2:us-east-1:<AWS::AccountId>:{what}"
        for what in ("subnet/subnet-0123456789abcdef0", "security-group/sg-0123456789abcdef0", "network-interface/*")
    }


def test_a_region_with_file_systems_allows_only_these(layer: Path) -> None:
    mounted = {"fs-0123456789abcdef0": "EFS", "fs-0fedcba987654321": "FSxLustre"}
    vpc = {"subnets": ["subnet-0123456789abcdef0"], "security_groups": ["sg-0123456789abcdef0"]}
    made = synthesise(a_grid({"us-east-1": {**vpc, "file_systems": mounted}, "eu-west-1": {}}), layer)
    free, inside = created(made["traingrid-control"])
    assert free["Condition"]["Null"]["sagemaker:FileSystemId"] == "true"
    assert "sagemaker:FileSystemId" not in inside["Condition"]["Null"]
    assert inside["Condition"]["StringEqualsIfExists"] == {
        "sagemaker:FileSystemId": list(mounted),
        "sagemaker:FileSystemAccessMode": "ro",
    }
    region = made["traingrid-us-east-1"]
    assert on(region, EXECUTION, "elasticfilesystem:ClientMount") == {
        "arn:aws:elasticfilesystem:us-east-1:<AWS::AccountId>:file-system/fs-0123456789abcdef0"
    }
    listed = "fs-0123456789abcdef0 (EFS), fs-0fedcba987654321 (FSxLustre)"
    assert region["Outputs"]["FileSystems"]["Value"] == listed
    assert "FileSystems" not in made["traingrid-eu-west-1"]["Outputs"]


def test_forbidden_actions_of_a_child_are_denied_explicitly(control: Template) -> None:
    never = {tuple(entry["Action"]): entry for entry in statements(control, CHILD) if entry["Effect"] == "Deny"}
    denied = [entry for entry in statements(control, CHILD) if entry["Effect"] == "Deny"]
    assert never["sagemaker:DeleteTrainingJob", "sagemaker:UpdateTrainingJob"].get("Condition") is None
    assert {"Bool": {"sagemaker:EnableRemoteDebug": "true"}} in [entry.get("Condition") for entry in denied]
    assert {"NumericGreaterThan": {"sagemaker:KeepAlivePeriod": "0"}} in [entry.get("Condition") for entry in denied]
    assert {resource for entry in denied for resource in entry["Resource"]} == {"*"}


def _length(document: Any) -> int:
    """Return the length of a policy as IAM counts it: without white space, and with references resolved."""
    text = json.dumps(document, separators=(",", ":")).replace('{"Ref":"AWS::AccountId"}', '"123456789012"')
    return len(re.sub(r"\{\"(Ref|Fn::GetAtt)\":.*?\}", "x" * 60, text).replace(" ", ""))


@pytest.mark.parametrize("vpc", [False, True])
@pytest.mark.parametrize("queue", [{}, {"service_queue": {"instances": 2}}], ids=["direct", "queues"])
def test_policies_fit_into_iam_with_twelve_regions(*, layer: Path, vpc: bool, queue: dict[str, Any]) -> None:
    """IAM's limits: 10,240 characters for all inline policies of a role, 6,144 for a managed policy, ten per role
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html). The CDK creates managed policies."""
    networks = {
        region: {
            "subnets": [f"subnet-{number:016x}{subnet}" for subnet in range(3)],
            "security_groups": [f"sg-{number:017x}"],
        }
        for number, region in enumerate(REGIONS)
    }
    regions = {
        region: {**(network if vpc else {}), **queue, "residency": [region[:2]] if vpc else []}
        for region, network in networks.items()
    }
    grid = a_grid(regions, moves=vpc)
    largest = 0
    for template in synthesise(grid, layer).values():
        inline: Counter[str] = Counter()
        managed: Counter[str] = Counter()
        for policy in policies(template):
            (role,) = (attached["Ref"] for attached in policy["Properties"]["Roles"])
            length = _length(policy["Properties"]["PolicyDocument"])
            if policy["Type"] == "AWS::IAM::Policy":
                inline[role] += length
            else:
                managed[role] += 1
                assert length <= 6144
        assert max(inline.values(), default=0) <= 10_240
        assert max(managed.values(), default=0) <= 10
        largest = max(largest, *inline.values(), 0)
    assert largest > 5000, "the longest policies were not checked"


def test_a_child_has_exactly_the_required_actions(control: Template) -> None:
    assert actions(control, CHILD) == {
        "s3:GetObject",
        "s3:GetObjectVersion",
        "s3:ListBucket",
        "s3:PutObject",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "dynamodb:UpdateItem",
        "sagemaker:CreateTrainingJob",
        "sagemaker:AddTags",
        "sagemaker:DescribeTrainingJob",
        "sagemaker:ListTags",
        "sagemaker:StopTrainingJob",
        "iam:PassRole",
        "logs:GetLogEvents",
        "logs:DescribeLogStreams",
    }


def test_the_childs_image_has_the_models_of_all_permitted_calls(control: Template, layer: Path) -> None:
    regions = {"us-east-1": {"account": "210987654321"}, "us-west-2": {"service_queue": {"instances": 2}}}
    made = synthesise(a_grid(regions, account="123456789012"), layer)
    possible = actions(control, CHILD) | actions(made["traingrid-control"], CHILD)
    possible |= actions(made["traingrid-us-east-1"], "ActingLaunch")
    called = possible - {"iam:PassRole", "sagemaker:AddTags", "batch:TagResource"}  # permissions without calls
    assert {"batch:SubmitServiceJob", "sts:AssumeRole"} <= called
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html and API_GetObject.html name the permissions
    called = called - {"s3:ListBucket", "s3:GetObjectVersion"} | {"s3:ListObjectsV2", "s3:GetObject"}
    for service, operation in (action.split(":") for action in called):
        assert operation in OPERATIONS[service], f"{service}:{operation}"


def test_a_child_lists_data_and_writes_only_manifest_files(layer: Path) -> None:
    regions: dict[str, Any] = {"us-east-1": {"data_buckets": ["mine-east"]}, "eu-west-1": {}}
    control = synthesise(a_grid(regions), layer)["traingrid-control"]
    own = [f"arn:aws:s3:::traingrid-data-<AWS::AccountId>-{region}" for region in regions]
    outputs = [f"arn:aws:s3:::traingrid-output-<AWS::AccountId>-{region}" for region in regions]
    (manifests,) = resources(control, "AWS::S3::Bucket")
    assert on(control, CHILD, "s3:ListBucket") == {*own, *outputs, "arn:aws:s3:::mine-east"}
    jobs = {f"<{manifests}.Arn>/submissions/*/{name}" for name in ("jobs.jsonl", "jobs.index")}
    assert on(control, CHILD, "s3:PutObject") - jobs == {f"{bucket}/*/input/*.manifest" for bucket in outputs}
    assert on(control, CHILD, "s3:GetObject") - on(control, CHILD, "s3:PutObject") == {
        f"<{manifests}.Arn>/submissions/*",
        f"<{manifests}.Arn>/by-hand/*",
    }


def test_the_intake_submits_to_this_queue_and_can_neither_train_nor_pass_a_role(control: Template) -> None:
    possible = actions(control, INTAKE)
    assert not {action for action in possible if action.startswith(("sagemaker:", "iam:"))}
    assert "s3:ListBucket" not in possible
    assert "batch:RegisterJobDefinition" not in possible
    (submit,) = [entry for entry in statements(control, INTAKE) if "batch:SubmitJob" in entry["Action"]]
    (queue,) = resources(control, "AWS::Batch::JobQueue")
    assert sorted(submit["Resource"]) == sorted(
        [
            f"<{queue}.JobQueueArn>",
            "arn:aws:batch:us-east-1:<AWS::AccountId>:job-definition/traingrid-orchestrator:*",
            "arn:aws:batch:us-east-1:<AWS::AccountId>:job/*",
        ]
    )


def test_the_intake_reads_manifests_and_cannot_write_them(control: Template) -> None:
    (bucket,) = resources(control, "AWS::S3::Bucket")
    on_objects = {
        action: set(statement["Resource"])
        for statement in statements(control, INTAKE)
        for action in statement["Action"]
        if action.startswith("s3:")
    }
    assert on_objects["s3:GetObject"] == {f"<{bucket}.Arn>/manifests/*"}
    assert on_objects["s3:PutObject"] == {f"<{bucket}.Arn>/submissions/*", f"<{bucket}.Arn>/manifests/*.report.json"}


def test_the_recorder_can_neither_start_nor_stop_a_job(control: Template) -> None:
    possible = {action for action in actions(control, RECORDER) if not action.startswith(("logs:", "sqs:", "xray:"))}
    assert possible == {"sagemaker:DescribeTrainingJob", "sagemaker:ListTags", "dynamodb:UpdateItem"}


def test_the_reconciler_lists_describes_stops_and_records_and_can_start_nothing(control: Template) -> None:
    possible = {action for action in actions(control, RECONCILER) if not action.startswith(("logs:", "sqs:", "xray:"))}
    assert possible == {
        "sagemaker:ListTrainingJobs",
        "sagemaker:DescribeTrainingJob",
        "sagemaker:StopTrainingJob",
        "sagemaker:ListTags",
        "batch:DescribeJobs",
        "batch:ListJobs",
        "dynamodb:Scan",
        "dynamodb:Query",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",  # marks of submissions without open work
        "s3:GetObject",
        "s3:GetObjectVersion",
        "s3:ListBucket",
    }
    (stop,) = [entry for entry in statements(control, RECONCILER) if "sagemaker:StopTrainingJob" in entry["Action"]]
    assert sorted(stop["Resource"]) == sorted(
        f"arn:aws:sagemaker:{region}:<AWS::AccountId>:training-job/traingrid-????????-*" for region in REGIONS[:4]
    )


def test_a_training_job_cannot_launch_jobs_or_touch_the_control_plane(oregon: Template) -> None:
    possible = actions(oregon, EXECUTION)
    assert "s3:PutObject" in possible
    assert not {
        action for action in possible if action.split(":")[0] in {"sagemaker", "iam", "sts", "dynamodb", "batch"}
    }
    touched = {resource for statement in statements(oregon, EXECUTION) for resource in statement["Resource"]}
    assert not {resource for resource in touched if "manifests" in resource}


def test_a_training_job_writes_to_the_output_bucket_only(oregon: Template) -> None:
    (output,) = [name for name in resources(oregon, "AWS::S3::Bucket") if name.startswith("Output")]
    (write,) = [entry for entry in statements(oregon, EXECUTION) if "s3:PutObject" in entry["Action"]]
    assert write["Resource"] == [f"<{output}.Arn>/*"]


def test_service_roles_are_limited_to_this_account(control: Template, oregon: Template) -> None:
    free = set()
    for template in (control, oregon):
        for name, role in resources(template, "AWS::IAM::Role").items():
            (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
            if "Condition" in statement:
                assert flat(statement["Condition"]["StringEquals"]["aws:SourceAccount"]) == "<AWS::AccountId>"
                sources = statement["Condition"]["ArnLike"]["aws:SourceArn"]
                for source in sources if isinstance(sources, list) else [sources]:
                    assert "<AWS::AccountId>" in flat(source)
            else:
                free.add(name[:-8])  # without CloudFormation's hash
    assert free == {INTAKE, RECORDER, RECONCILER, "DatasetsRegisterRole", "GuardAnswerRole", "OrchestratorPullRole"}, (
        "Lambda, and ECS for pulling, document no condition"
    )


def test_a_wildcard_without_a_reason_cannot_be_granted() -> None:
    role = iam.Role(Stack(App(), "S"), "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    with pytest.raises(ValueError, match="a wildcard requires `because`"):
        grant(role, ["s3:GetObject"], ["arn:aws:s3:::bucket/*"])
    with pytest.raises(ValueError, match="a wildcard requires `because`"):
        grant(role, ["s3:ListBucket"], ["arn:aws:s3:::bucket"], because="there is none")
