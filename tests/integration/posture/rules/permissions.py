"""Rules for permissions in every grid; tests/integration/stacks/test_permissions.py checks those of each role."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.integration.posture.rule import Rule, listed, put, referred
from tests.integration.posture.synthesised import Synthesised
from tests.integration.stacks.templates import ROOT, flat

POLICY, MANAGED, ROLE = "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::Role"
INLINE_LIMIT, MANAGED_LIMIT, MANAGED_POLICIES = 10_240, 6_144, 10
"""The maximum characters of all inline policies of a role and of a managed policy, and the maximum number of managed
policies per role (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html). The CDK creates managed
policies for statements that exceed the first limit."""

LONG_ARN = "x" * 100

WITHOUT_A_RESOURCE = {
    "batch:DescribeJobs",
    "batch:DescribeServiceJob",
    "batch:ListJobs",
    "batch:ListServiceJobs",
    "cloudwatch:PutMetricData",
    *(
        f"ec2:Describe{what}"
        for what in (
            "DhcpOptions",
            "NetworkInterfaces",
            "Regions",
            "SecurityGroups",
            "SpotPriceHistory",
            "Subnets",
            "Vpcs",
        )
    ),
    "dynamodb:ListStreams",
    "ecr:GetAuthorizationToken",
    "sagemaker:ListTrainingJobs",
    "sagemaker:ListTrainingPlans",
    "servicequotas:ListServiceQuotas",
    *(f"ssmmessages:{verb}{kind}Channel" for verb in ("Create", "Open") for kind in ("Control", "Data")),
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}
"""Actions that only support the resource "*" (Service Authorization Reference of each service)."""
_OF_LAMBDA = {
    *(f"ec2:{verb}NetworkInterface" for verb in ("Create", "Delete")),
    *(f"ec2:{verb}PrivateIpAddresses" for verb in ("Assign", "Unassign")),
}
"""Actions by which Lambda connects a function to subnets. It refuses a role in which they name resources
(https://github.com/hashicorp/terraform-provider-aws/issues/20698); another statement denies them to the function."""

_WITHOUT_CALLS = {"ec2", "iam", "kms", "sqs", "xray"}
"""Services that functions never call: Lambda and the services that they do call use these permissions."""


def every_statement_names_actions_and_resources(made: Synthesised) -> Iterator[str]:
    for where, statement in _allowing(made):
        if {"NotAction", "NotResource"} & set(statement):
            yield f"{where} uses NotAction or NotResource"
        actions = set(listed(statement.get("Action", [])))
        if any("*" in action for action in actions):
            yield f"{where} allows {sorted(actions)}"
        if "*" in listed(statement.get("Resource", "*")) and not actions <= WITHOUT_A_RESOURCE | _OF_LAMBDA:
            yield f"{where} allows {sorted(actions)} on everything"


def a_role_is_passed_by_its_whole_name_to_one_service(made: Synthesised) -> Iterator[str]:
    for where, statement in _allowing(made):
        if "iam:PassRole" in listed(statement["Action"]):
            if any("*" in flat(resource) for resource in listed(statement["Resource"])):
                yield f"{where} passes any role of {statement['Resource']}"
            if "iam:PassedToService" not in statement.get("Condition", {}).get("StringEquals", {}):
                yield f"{where} passes a role to any service"


def training_jobs_are_created_under_the_grids_name_in_its_regions_only(made: Synthesised) -> Iterator[str]:
    for where, statement in _allowing(made):
        if "sagemaker:CreateTrainingJob" in listed(statement["Action"]):
            for resource in map(flat, listed(statement["Resource"])):
                region, account_and_name = resource.split(":", 4)[3:]
                settings = made.grid.regions.get(region)
                names = [f":training-job/{made.grid.name}-????????-*"] * bool(settings)
                if settings and settings.training_plans:  # IAM also authorizes the plan of a request and its capacity
                    names += [*(f":training-plan/{plan}" for plan in settings.training_plans), ":reserved-capacity/*"]
                if not any(account_and_name.endswith(name) for name in names):
                    yield f"{where} creates {resource}"
            if not statement.get("Condition"):
                yield f"{where} creates training jobs without a condition"


def a_role_is_taken_by_services_and_accounts_of_the_grid_only(made: Synthesised) -> Iterator[str]:
    grid_json = made.grid.model_dump_json()
    for where, role in made.properties(ROLE):
        for statement in role["AssumeRolePolicyDocument"]["Statement"]:
            principal = str(statement["Principal"])
            strangers = [account for account in re.findall(r"\d{12}", principal) if account not in grid_json]
            if "*" in principal or strangers:
                yield f"{where} trusts {principal}"
            keys = {key for compared in statement.get("Condition", {}).values() for key in compared}
            for_people = role.get("RoleName", "").startswith(f"{made.grid.name}-use-")
            if "AWS" in statement["Principal"] and "aws:PrincipalArn" not in keys and not for_people:
                yield f"{where} trusts all principals of {principal}"


def no_role_has_a_policy_of_aws(made: Synthesised) -> Iterator[str]:
    for where, role in made.properties(ROLE):
        if any(isinstance(arn, str) for arn in role.get("ManagedPolicyArns", ())):
            yield f"{where} has {role['ManagedPolicyArns']}"


def the_policies_of_a_role_fit_into_iams_limits(made: Synthesised) -> Iterator[str]:
    inline: Counter[str] = Counter()
    managed: Counter[str] = Counter()
    for where, policy in made.properties(POLICY):
        for role in policy["Roles"]:
            inline[f"{where.partition('/')[0]}/{referred(role)}"] += _characters(policy["PolicyDocument"])
    for where, policy in made.properties(MANAGED):
        if _characters(policy["PolicyDocument"]) > MANAGED_LIMIT:
            yield f"{where} is too long for a managed policy"
        managed.update(f"{where.partition('/')[0]}/{referred(role)}" for role in policy.get("Roles", ()))
    for role, characters in inline.items():
        if characters > INLINE_LIMIT or managed[role] > MANAGED_POLICIES:
            yield f"{role} has {characters} characters of inline policies and {managed[role]} managed ones"


def the_layer_has_the_sdks_model_of_each_service_that_a_function_calls(made: Synthesised) -> Iterator[str]:
    functions = {
        f"{stack}/{name}"
        for stack, name, role in made.each(ROLE)
        if "lambda.amazonaws.com" in str(role["Properties"]["AssumeRolePolicyDocument"])
    }
    models = set((ROOT / "setup" / "layer-services.txt").read_text().split())
    for where, policy in (*made.properties(POLICY), *made.properties(MANAGED)):
        if functions & {f"{where.partition('/')[0]}/{referred(role)}" for role in policy["Roles"]}:
            actions = (listed(statement["Action"]) for statement in policy["PolicyDocument"]["Statement"])
            services = {action.partition(":")[0] for allowed in actions for action in allowed}
            if services - models - _WITHOUT_CALLS:
                yield f"{where} allows calls of {sorted(services - models - _WITHOUT_CALLS)}"


def _allowing(made: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, policy in (*made.properties(POLICY), *made.properties(MANAGED)):
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Effect"] == "Allow":
                yield where, statement


def _characters(document: Any) -> int:
    """Return the length of a policy without white space, where unknown ARNs are replaced by long ones."""
    return len(json.dumps(_resolved(document), separators=(",", ":")))


def _resolved(node: Any) -> Any:
    if isinstance(node, dict) and not {"Ref", "Fn::GetAtt", "Fn::Join"} & set(node):
        return {key: _resolved(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_resolved(value) for value in node]
    return re.sub("<[^>]*>", LONG_ARN, flat(node).replace("<AWS::AccountId>", "1" * 12)) if node else node


def _statement(action: str) -> Any:
    """Return a function that finds the first statement that allows an action, in a copy of the templates."""

    def find(made: Synthesised) -> dict[str, Any]:
        return next(found for _, found in _allowing(made) if action in listed(found["Action"]))

    return find


def _pass_any_role(made: Synthesised) -> None:
    _statement("iam:PassRole")(made)["Resource"] = "arn:aws:iam::123456789012:role/traingrid-*"


def _pass_to_any_service(made: Synthesised) -> None:
    del _statement("iam:PassRole")(made)["Condition"]


def _call_another_service(made: Synthesised) -> None:
    _statement("batch:SubmitJob")(made)["Action"] = "rds:StartDBCluster"


def _create_anywhere(made: Synthesised) -> None:
    _statement("sagemaker:CreateTrainingJob")(made)["Resource"] = "arn:aws:sagemaker:*:123456789012:training-job/x"


def _create_without_a_condition(made: Synthesised) -> None:
    del _statement("sagemaker:CreateTrainingJob")(made)["Condition"]


FIRST = "PolicyDocument.Statement.0"
TRUST = "AssumeRolePolicyDocument.Statement.0"
RULES = (
    Rule(
        every_statement_names_actions_and_resources,
        (
            put(POLICY, f"{FIRST}.Action", ["s3:*"]),
            put(POLICY, f"{FIRST}.Resource", "*"),
            put(POLICY, f"{FIRST}.NotResource", "arn:aws:s3:::x"),
        ),
    ),
    Rule(a_role_is_passed_by_its_whole_name_to_one_service, (_pass_any_role, _pass_to_any_service)),
    Rule(
        training_jobs_are_created_under_the_grids_name_in_its_regions_only,
        (_create_anywhere, _create_without_a_condition),
    ),
    Rule(
        a_role_is_taken_by_services_and_accounts_of_the_grid_only,
        (
            put(ROLE, f"{TRUST}.Principal", {"AWS": "*"}),
            put(ROLE, f"{TRUST}.Principal", {"AWS": "999999999999"}),
            put(ROLE, f"{TRUST}.Principal", {"AWS": "arn:aws:iam::123456789012:root"}),
        ),
    ),
    Rule(
        the_policies_of_a_role_fit_into_iams_limits,
        (put(POLICY, f"{FIRST}.Resource", [f"arn:aws:s3:::bucket-{number:040}" for number in range(200)]),),
    ),
    Rule(the_layer_has_the_sdks_model_of_each_service_that_a_function_calls, (_call_another_service,)),
    Rule(no_role_has_a_policy_of_aws, (put(ROLE, "ManagedPolicyArns", ["arn:aws:iam::aws:policy/ReadOnlyAccess"]),)),
)
