"""Rules for generated names: CloudFormation shortens them, so no policy may depend on their beginning."""

from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from localcloud.cloudformation.resource_schemas import resource_schema
from tests.integration.posture.configurations import HOME
from tests.integration.posture.rule import Rule, put
from tests.integration.posture.synthesised import Synthesised
from tests.integration.stacks.templates import flat

ARNS = {
    "AWS::IAM::Role": "arn:aws:iam::{account}:role/{name}",
    "AWS::Events::Rule": "arn:aws:events:{region}:{account}:rule/{name}",
    "AWS::Lambda::Function": "arn:aws:lambda:{region}:{account}:function:{name}",
    "AWS::SQS::Queue": "arn:aws:sqs:{region}:{account}:{name}",
    "AWS::SNS::Topic": "arn:aws:sns:{region}:{account}:{name}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{name}",
    "AWS::CodeBuild::Project": "arn:aws:codebuild:{region}:{account}:project/{name}",
    "AWS::Batch::ComputeEnvironment": "arn:aws:batch:{region}:{account}:compute-environment/{name}",
}
"""ARN formats by type (Service Authorization Reference of each service)."""


def no_policy_depends_on_a_name_that_cloudformation_chooses(made: Synthesised) -> Iterator[str]:
    patterns = set(_arn_patterns(made))
    for arn in _generated(made):
        other = arn.replace(made.grid.name, "?")
        for where, pattern in patterns:
            if fnmatchcase(arn, pattern) and not fnmatchcase(other, pattern):
                yield f"{where} depends on the generated name in {arn}"


def _generated(made: Synthesised) -> Iterator[str]:
    """Yield the ARNs of resources without explicit names, as if generated names were never shortened."""
    for kind, form in ARNS.items():
        for stack, logical_id, resource in made.each(kind):
            if not resource_schema(kind).name(resource.get("Properties", {})):
                account = made.accounts[stack] if made.accounts[stack].isdigit() else HOME
                name = f"{stack}-{logical_id}-R8GGDQYO90UP"
                yield form.format(account=account, region=made.regions[stack], name=name)


def _arn_patterns(made: Synthesised) -> Iterator[tuple[str, str]]:
    for stack, template in made.templates.items():
        account = made.accounts[stack] if made.accounts[stack].isdigit() else HOME
        for logical_id, resource in template["Resources"].items():
            for text in _texts(resource.get("Properties", {})):
                if text.startswith("arn:") and "*" in text:
                    known = text.replace("<AWS::AccountId>", account).replace("<AWS::Region>", made.regions[stack])
                    yield f"{stack}/{logical_id}", known


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings in a value, including references."""
    match value:
        case str():
            yield value
        case {"Fn::Join": _}:
            with suppress(AssertionError):  # another stack's output, which is not the name of a resource
                yield flat(value)
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


RULES = (
    Rule(
        no_policy_depends_on_a_name_that_cloudformation_chooses,
        (
            put("AWS::IAM::Policy", "PolicyDocument.Statement.0.Resource", f"arn:aws:iam::{HOME}:role/traingrid-con*"),
            put(
                "AWS::IAM::Role",
                "AssumeRolePolicyDocument.Statement.0.Condition",
                {"ArnLike": {"aws:SourceArn": f"arn:aws:logs:us-east-1:{HOME}:log-group:traingrid-control-*"}},
            ),
        ),
    ),
)
