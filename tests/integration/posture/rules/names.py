"""Rules for names, tags and order: twelve Regions of one account, and two grids in one account, do not collide."""

from collections import Counter
from collections.abc import Iterator
from functools import cache

from tests.integration.posture.rule import Rule, put, without
from tests.integration.posture.synthesised import Synthesised
from tests.integration.stacks.templates import flat
from traingrid import names
from traingrid.grid.catalog import DSQL_CATALOG
from traingrid.names import TAG_GRID

ACCOUNT = "123456789012"
EVERYWHERE = {"AWS::S3::Bucket", "AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::CloudWatch::Dashboard"}
"""Types whose names are unique in an account or globally; the names of all other types are unique in a Region."""

NAMES = {
    "AWS::S3::Bucket": ("BucketName", 63),
    "AWS::IAM::Role": ("RoleName", 64),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName", 128),
    "AWS::CloudWatch::Dashboard": ("DashboardName", 255),
    "AWS::CloudWatch::Alarm": ("AlarmName", 255),
    "AWS::SNS::Topic": ("TopicName", 256),
    "AWS::SQS::Queue": ("QueueName", 80),
    "AWS::DynamoDB::Table": ("TableName", 255),
    "AWS::Lambda::Function": ("FunctionName", 64),
    "AWS::Logs::LogGroup": ("LogGroupName", 512),
    "AWS::SSM::Parameter": ("Name", 1011),
    "AWS::KMS::Alias": ("AliasName", 256),
    "AWS::CodeBuild::Project": ("Name", 150),
    "AWS::ECR::Repository": ("RepositoryName", 256),
    "AWS::Events::EventBus": ("Name", 256),
    "AWS::Events::Rule": ("Name", 64),
    "AWS::Batch::JobDefinition": ("JobDefinitionName", 128),
    "AWS::Batch::JobQueue": ("JobQueueName", 128),
    "AWS::Batch::ComputeEnvironment": ("ComputeEnvironmentName", 128),
    "AWS::Batch::ServiceEnvironment": ("ServiceEnvironmentName", 128),
    "AWS::Batch::SchedulingPolicy": ("Name", 128),
}
"""The property with the name, and AWS's maximum length, by type (API reference of each)."""


def no_name_collides_between_regions(made: Synthesised) -> Iterator[str]:
    used = Counter(
        (kind, name, made.accounts[stack], "" if kind in EVERYWHERE else made.regions[stack])
        for stack, kind, name in _named(made)
    )
    for (kind, name, _, region), times in used.items():
        if times > 1:
            yield f"{kind} {name} exists {times} times in {region or 'the account'}"


def every_name_begins_with_the_grids_and_is_not_too_long(made: Synthesised) -> Iterator[str]:
    for stack, kind, name in _named(made):
        plain = name.replace("<AWS::AccountId>", ACCOUNT).removeprefix("alias/").removeprefix("/")
        if not plain.startswith(made.grid.name) or len(plain) > NAMES[kind][1]:
            yield f"{stack}: {kind} {name}"


def every_resource_has_the_tag_of_its_grid(made: Synthesised) -> Iterator[str]:
    """Every resource that supports tags has the grid's tag, so that all costs are allocated."""
    for stack, template in made.templates.items():
        for name, resource in template["Resources"].items():
            key = _tag_property(resource["Type"])
            tags = resource.get("Properties", {}).get(key, {})
            found = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
            if key and found.get(TAG_GRID) != made.grid.name:
                yield f"{stack}/{name} ({resource['Type']})"


def repositories_come_first_then_builds_the_control_plane_regions_and_the_guard(made: Synthesised) -> Iterator[str]:
    """An image is replicated to existing repositories, and a Region's events are sent to an existing bus.

    The last stack is destroyed first: the guard, which refuses to destroy anything while jobs run.
    """
    grid = made.grid
    images, builds, control = (it(grid.name) for it in (names.images_stack, names.builds_stack, names.control_stack))
    needs = {
        control: {builds},
        builds: {images},
        images: {names.registry_stack(grid.name, it) for it in grid.replicas()},
    }
    needs |= {names.region_stack(grid.name, region): {control} for region in grid.regions}
    needs[names.guard_stack(grid.name)] = {names.region_stack(grid.name, region) for region in grid.regions}
    if grid.catalog == DSQL_CATALOG:  # it connects the ledger's stream with a function
        needs[names.guard_stack(grid.name)].add(control)
    for stack, after in made.after.items():
        if (after & set(made.templates)) != needs.get(stack, set()):
            yield f"{stack} is deployed after {sorted(after)}"


def regions_share_nothing_but_names(made: Synthesised) -> Iterator[str]:
    """An export that another stack imports cannot be changed. A Region must be removable without the others."""
    for stack, template in made.templates.items():
        exported = [name for name, output in template.get("Outputs", {}).items() if "Export" in output]
        if exported or "Fn::ImportValue" in str(template):
            yield f"{stack} exports {exported}, or imports"


@cache
def _tag_property(kind: str) -> str:
    """Return the property with a type's tags in CloudFormation's schema; "" for a type without tags."""
    # cfn-lint takes seconds to load, and each worker collects the files that import this one.
    from cfnlint.helpers import REGION_PRIMARY  # noqa: PLC0415  # see above
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError  # noqa: PLC0415  # see above

    try:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION_PRIMARY, kind).schema
    except ResourceNotFoundError:
        return ""  # a custom resource
    tagging = schema.get("tagging") or {"taggable": "Tags" in schema["properties"]}
    return str(tagging.get("tagProperty", "/properties/Tags")).rpartition("/")[2] if tagging["taggable"] else ""


def _named(made: Synthesised) -> Iterator[tuple[str, str, str]]:
    for kind, (key, _) in NAMES.items():
        for stack, _, resource in made.each(kind):
            if key in resource.get("Properties", {}):
                yield stack, kind, flat(resource["Properties"][key])


def _one_role_name_everywhere(made: Synthesised) -> None:
    for _, _, role in made.each("AWS::IAM::Role"):
        if "RoleName" in role["Properties"]:
            role["Properties"]["RoleName"] = f"{made.grid.name}-execution"


def _independent(made: Synthesised) -> None:
    for stack in made.after:
        made.after[stack].clear()


def _imports(made: Synthesised) -> None:
    next(iter(made.templates.values())).setdefault("Outputs", {})["Shared"] = {
        "Value": {"Fn::ImportValue": "of-another-stack"}
    }


RULES = (
    Rule(no_name_collides_between_regions, (_one_role_name_everywhere,)),
    Rule(
        every_name_begins_with_the_grids_and_is_not_too_long,
        (put("AWS::Batch::JobQueue", "JobQueueName", "queue"), put("AWS::SQS::Queue", "QueueName", "traingrid" * 9)),
    ),
    Rule(
        every_resource_has_the_tag_of_its_grid,
        (without("AWS::Logs::LogGroup", "Tags"), put("AWS::Batch::JobQueue", "Tags", {"traingrid:grid": "other"})),
    ),
    Rule(repositories_come_first_then_builds_the_control_plane_regions_and_the_guard, (_independent,)),
    Rule(regions_share_nothing_but_names, (_imports,)),
)
