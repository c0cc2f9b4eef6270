"""A grid of two accounts: the places of stacks, and the trust between roles."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stacks import templates
from tests.integration.stacks.templates import (
    Template,
    a_grid,
    an_app,
    assembly,
    flat,
    on,
    only,
    resources,
    statements,
    synthesise,
)

HOME, OTHER = "123456789012", "210987654321"
CHILD, RECONCILER, RECORDER = "OrchestratorRole", "ReconcilerSweepRole", "JobEventsRecordRole"
REGIONS = {"us-east-1": {"account": OTHER}, "us-west-2": None, "eu-west-1": {"account": OTHER}}
PARTS = {"launch": "child", "record": "recorder", "sweep": "reconciler", "register": "registrar"}


class Made:
    """The stacks of a grid.

    Attributes:
        templates: The templates by stack name.
        places: The account and Region of each stack.
        missing: Values that the CDK CLI would have to look up in the account.
    """

    def __init__(self, layer: Path, folder: Path, **changes: Any) -> None:
        stacks = an_app(a_grid(REGIONS, account=HOME, **changes), layer, folder).synth().stacks
        self.templates: dict[str, Template] = {stack.stack_name: stack.template for stack in stacks}
        self.places = {stack.stack_name: (stack.environment.account, stack.environment.region) for stack in stacks}
        self.missing = json.loads((folder / "manifest.json").read_text()).get("missing", [])


@pytest.fixture(scope="module")
def made(layer: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(layer, tmp_path_factory.mktemp("accounts"), encryption="kms", network="private")


@pytest.fixture(scope="module")
def control(made: Made) -> Template:
    return made.templates["traingrid-control"]


@pytest.fixture(scope="module")
def virginia(made: Made) -> Template:
    """The home Region, in the other account."""
    return made.templates["traingrid-us-east-1"]


def trust(template: Template, role: str) -> list[Any]:
    (found,) = [
        entry["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        for entry in resources(template, "AWS::IAM::Role").values()
        if entry["Properties"].get("RoleName") == role
    ]
    return list(found)


def test_stacks_of_a_region_are_in_its_account_and_nothing_is_looked_up(made: Made) -> None:
    assert made.places == {
        "traingrid-images": (HOME, "us-east-1"),
        "traingrid-builds": (HOME, "us-east-1"),
        "traingrid-control": (HOME, "us-east-1"),
        "traingrid-guard": (HOME, "us-east-1"),
        "traingrid-us-east-1": (OTHER, "us-east-1"),
        "traingrid-registry-us-east-1": (OTHER, "us-east-1"),
        "traingrid-us-west-2": (HOME, "us-west-2"),
        "traingrid-registry-us-west-2": (HOME, "us-west-2"),
        "traingrid-eu-west-1": (OTHER, "eu-west-1"),
        "traingrid-registry-eu-west-1": (OTHER, "eu-west-1"),
    }
    assert made.missing == []
    assert "Fn::GetAZs" in json.dumps(made.templates["traingrid-control"])


def test_with_a_single_account_stacks_have_no_account_and_roles_have_fixed_names(layer: Path) -> None:
    stacks = assembly(a_grid(2), layer).stacks
    assert {stack.environment.account for stack in stacks} == {"unknown-account"}
    named = {
        role["Properties"].get("RoleName")
        for stack in stacks
        for role in resources(stack.template, "AWS::IAM::Role").values()
    }
    of_regions = {f"traingrid-{what}-{region}" for what in ("execution", "events") for region in templates.REGIONS[:2]}
    assert named == {None, *of_regions, *(f"traingrid-{part}" for part in (*PARTS.values(), "guard"))}
    assert not [stack for stack in stacks if "sts:AssumeRole" in str(list(statements(stack.template)))]


@pytest.mark.parametrize(("part", "who"), PARTS.items())
def test_each_part_assumes_exactly_its_roles_which_trust_no_other_part(
    control: Template, virginia: Template, part: str, who: str
) -> None:
    (role,) = [
        logical
        for logical, entry in resources(control, "AWS::IAM::Role").items()
        if entry["Properties"].get("RoleName") == f"traingrid-{who}"
    ]
    assert on(control, role, "sts:AssumeRole") == {
        f"arn:aws:iam::{OTHER}:role/traingrid-{part}-{region}" for region in ("us-east-1", "eu-west-1")
    }
    (statement,) = trust(virginia, f"traingrid-{part}-us-east-1")
    assert statement["Principal"] == {"AWS": f"arn:aws:iam::{HOME}:root"}
    assert statement["Action"] == "sts:AssumeRole"
    assert statement["Condition"] == {"ArnEquals": {"aws:PrincipalArn": f"arn:aws:iam::{HOME}:role/traingrid-{who}"}}


def test_a_childs_own_role_trains_only_in_regions_of_its_account(control: Template) -> None:
    created = on(control, CHILD, "sagemaker:CreateTrainingJob")
    assert created == {"arn:aws:sagemaker:us-west-2:<AWS::AccountId>:training-job/traingrid-????????-*"}
    assert on(control, CHILD, "iam:PassRole") == {"arn:aws:iam::<AWS::AccountId>:role/traingrid-execution-us-west-2"}
    keys = on(control, CHILD, "kms:Decrypt")
    assert {arn for arn in keys if ":key/" in arn} == {"arn:aws:kms:us-west-2:<AWS::AccountId>:key/*"}


def test_the_launch_role_of_another_account_has_the_childs_conditions(control: Template, virginia: Template) -> None:
    def about(template: Template, role: str) -> list[str]:
        named = ("CreateTrainingJob", "PassRole", "AddTags", "UpdateTrainingJob", "StopTrainingJob", "GetLogEvents")
        found = [entry for entry in statements(template, role) if any(name in str(entry["Action"]) for name in named)]
        return [json.dumps(entry, sort_keys=True).replace("us-west-2", "us-east-1") for entry in found]

    assert about(virginia, "ActingLaunch") == about(control, CHILD)
    assert len(about(virginia, "ActingLaunch")) == 8


def test_sweep_and_record_roles_create_nothing_and_pass_no_role(virginia: Template) -> None:
    may = {
        role: {action for entry in statements(virginia, role) for action in entry["Action"]}
        for role in ("ActingSweep", "ActingRecord")
    }
    looks = {"sagemaker:DescribeTrainingJob", "sagemaker:ListTags"}
    assert may["ActingRecord"] == looks
    assert may["ActingSweep"] == looks | {"sagemaker:ListTrainingJobs", "sagemaker:StopTrainingJob"}


def test_without_training_at_home_no_control_plane_role_may_train(layer: Path, tmp_path: Path) -> None:
    grid = a_grid({"us-east-1": {"account": OTHER}}, account=HOME, encryption="kms")
    control = next(
        stack.template for stack in an_app(grid, layer, tmp_path).synth().stacks if stack.stack_name.endswith("control")
    )
    assert {
        action for entry in statements(control) for action in entry["Action"] if action.startswith("sagemaker:")
    } == {"sagemaker:ListTrainingJobs"}, "the region guard has it, for its own account"


def test_only_forwarding_roles_of_another_account_may_put_events(control: Template, virginia: Template) -> None:
    policies = {
        policy["Properties"]["StatementId"]: policy["Properties"]["Statement"]
        for policy in resources(control, "AWS::Events::EventBusPolicy").values()
    }
    assert set(policies) == {"this-account", f"account-{OTHER}"}
    statement = policies[f"account-{OTHER}"]
    assert flat(statement["Resource"]).endswith(".Arn>")
    assert {key: value for key, value in statement.items() if key != "Resource"} == {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{OTHER}:root"},
        "Action": "events:PutEvents",
        "Condition": {
            "ArnEquals": {
                "aws:PrincipalArn": [
                    f"arn:aws:iam::{OTHER}:role/traingrid-events-{region}" for region in ("us-east-1", "eu-west-1")
                ]
            }
        },
    }
    bus = f"arn:aws:events:us-east-1:{HOME}:event-bus/traingrid"
    assert on(virginia, "Forwarding", "events:PutEvents") == {bus}
    rules = [
        entry["Properties"]
        for name, entry in resources(virginia, "AWS::Events::Rule").items()
        if name.startswith("Forwarding")
    ]
    assert [rule["Targets"][0]["Arn"] for rule in rules] == [bus, bus]
    assert len(trust(virginia, "traingrid-events-us-east-1")) == 1


def test_images_are_replicated_to_registries_of_other_accounts(made: Made) -> None:
    rules = only(made.templates["traingrid-images"], "AWS::ECR::ReplicationConfiguration")
    (rule,) = rules["ReplicationConfiguration"]["Rules"]
    assert [(place["Region"], flat(place["RegistryId"])) for place in rule["Destinations"]] == [
        ("us-east-1", OTHER),
        ("us-west-2", "<AWS::AccountId>"),
        ("eu-west-1", OTHER),
    ]
    (statement,) = only(made.templates["traingrid-registry-us-east-1"], "AWS::ECR::RegistryPolicy")["PolicyText"][
        "Statement"
    ]
    assert statement["Principal"] == {"AWS": f"arn:aws:iam::{HOME}:root"}
    assert statement["Action"] == ["ecr:ReplicateImage"]
    assert [flat(arn) for arn in statement["Resource"]] == [
        "arn:aws:ecr:us-east-1:<AWS::AccountId>:repository/traingrid/training"
    ]
    assert not resources(made.templates["traingrid-registry-us-west-2"], "AWS::ECR::RegistryPolicy")


def test_without_replicate_images_the_registry_statement_is_an_output(layer: Path, tmp_path: Path) -> None:
    made = Made(layer, tmp_path, replicate_images=False)
    registry = made.templates["traingrid-registry-us-east-1"]
    assert not resources(registry, "AWS::ECR::RegistryPolicy")
    assert "ecr:ReplicateImage" in flat(registry["Outputs"]["ReplicationPermission"]["Value"])


def test_one_role_may_check_for_images_in_another_account(layer: Path, tmp_path: Path) -> None:
    images = {"built": {"build": "training", "target": "cpu"}}
    made = Made(layer, tmp_path, images=images, job={"image": "built", "instance_type": "ml.m5.large"})
    repository = only(made.templates["traingrid-registry-us-east-1"], "AWS::ECR::Repository")
    (look,) = repository["RepositoryPolicyText"]["Statement"]
    assert look["Action"] == "ecr:DescribeImages"
    assert look["Condition"] == {"ArnEquals": {"aws:PrincipalArn": f"arn:aws:iam::{HOME}:role/traingrid-replication"}}
    template = made.templates["traingrid-builds"]
    there = on(template, "ReplicationWait", "ecr:DescribeImages")
    assert there == {
        "arn:aws:ecr:<AWS::Region>:<AWS::AccountId>:repository/traingrid/training",
        f"arn:aws:ecr:eu-west-1:{OTHER}:repository/traingrid/training",
        f"arn:aws:ecr:us-east-1:{OTHER}:repository/traingrid/training",
        "arn:aws:ecr:us-west-2:<AWS::AccountId>:repository/traingrid/training",
    }
    projects = json.dumps(resources(template, "AWS::CodeBuild::Project"))
    assert f"eu-west-1/{OTHER} us-east-1/{OTHER} us-west-2" in projects


def test_private_endpoints_allow_sts_and_the_account_that_trains_at_home(
    control: Template,
) -> None:
    endpoints = resources(control, "AWS::EC2::VPCEndpoint").values()
    services = {flat(endpoint["Properties"]["ServiceName"]).rpartition(".")[2] for endpoint in endpoints}
    assert "sts" in services
    for endpoint in endpoints:
        first = endpoint["Properties"]["PolicyDocument"]["Statement"][0]
        accounts = [flat(account) for account in first["Condition"]["StringEquals"]["aws:PrincipalAccount"]]
        assert accounts == ["<AWS::AccountId>", OTHER]


def test_the_dashboard_looks_for_a_regions_metrics_in_its_account(control: Template) -> None:
    body = flat(only(control, "AWS::CloudWatch::Dashboard")["DashboardBody"])
    searches = [
        entry
        for widget in json.loads(body)["widgets"]
        for metric in widget["properties"].get("metrics", ())
        for entry in metric
        if isinstance(entry, dict) and "SEARCH" in entry.get("expression", "")
    ]
    hosts = {
        (entry.get("region", "us-east-1"), entry.get("accountId"))
        for entry in searches
        if "Host" in entry["expression"]
    }
    assert hosts == {("us-east-1", OTHER), ("us-west-2", None), ("eu-west-1", OTHER)}
    queues = {
        (entry["expression"].split('QueueName="')[1].split('"')[0], entry.get("accountId"))
        for entry in searches
        if "AWS/SQS" in entry["expression"]
    }
    assert queues >= {("traingrid-control", None), ("traingrid-us-east-1", OTHER), ("traingrid-us-west-2", None)}


def test_users_may_describe_the_network_of_a_region_with_a_vpc(layer: Path) -> None:
    vpc = {"subnets": ["subnet-0123456789abcdef0"], "security_groups": ["sg-0123456789abcdef0"]}
    regions = {"us-east-1": {"account": OTHER, **vpc}, "eu-west-1": {"account": OTHER}}
    made = synthesise(a_grid(regions, account=HOME), layer)
    for action in ("ec2:DescribeSecurityGroupRules", "ec2:DescribeSubnets"):
        assert on(made["traingrid-us-east-1"], "ActingUse", action) == {"*"}
        assert on(made["traingrid-eu-west-1"], "ActingUse", action) == set()
    assert on(made["traingrid-us-east-1"], "ActingUse", "ec2:DescribeNetworkInterfaces") == set()
