"""Rules for data: private and encrypted; results are retained, and everything else is deleted with its stack."""

from collections.abc import Iterator
from typing import Any

from localcloud.cloudformation.templates import references
from tests.integration.posture.rule import Rule, listed, put, referred, removed, without
from tests.integration.posture.synthesised import Synthesised

BUCKET, BUCKET_POLICY, TABLE = "AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::DynamoDB::Table"
REPOSITORY, LOG, QUEUE = "AWS::ECR::Repository", "AWS::Logs::LogGroup", "AWS::SQS::Queue"
KEPT = {BUCKET, TABLE, "AWS::KMS::Key"}
"""Types that contain results, or that are required to read them."""
OUTLIVES = ("RetainExceptOnCreate", "Retain")
"""Policies for deletion and replacement. After a failed first deployment nothing remains that blocks the next one."""
PROTECTED = {"AWS::DSQL::Cluster": ("Retain", "Retain")}
"""Types that have no name, so that one that remains after a failed first deployment does not block the next one."""
GONE = {REPOSITORY, LOG, QUEUE}
"""Types that can be recreated, or are useless without the stack."""


def a_bucket_speaks_modern_tls_only(made: Synthesised) -> Iterator[str]:
    refused = {
        (where.partition("/")[0], referred(policy["Bucket"])): _refused(policy)
        for where, policy in made.properties(BUCKET_POLICY)
    }
    for stack, name, _ in made.each(BUCKET):
        if refused.get((stack, name), set()) < {"aws:SecureTransport=false", "s3:TlsVersion<1.2"}:
            yield f"{stack}/{name} only denies {refused.get((stack, name))}"


def a_bucket_is_the_accounts_alone(made: Synthesised) -> Iterator[str]:
    for where, bucket in made.properties(BUCKET):
        blocked = bucket.get("PublicAccessBlockConfiguration", {})
        if sum(value is True for value in blocked.values()) != 4:
            yield f"{where} only blocks {blocked}"
        owners = [rule["ObjectOwnership"] for rule in bucket.get("OwnershipControls", {}).get("Rules", ())]
        if owners != ["BucketOwnerEnforced"]:
            yield f"{where} has the object ownership {owners}"
        if not bucket.get("BucketEncryption"):
            yield f"{where} does not specify its encryption"


def a_bucket_keeps_versions_or_has_a_reason(made: Synthesised) -> Iterator[str]:
    for stack, name, bucket in made.each(BUCKET):
        skips = bucket.get("Metadata", {}).get("checkov", {}).get("skip", ())
        reasons = [skip["comment"] for skip in skips if skip["id"] == "CKV_AWS_21"]
        if bucket["Properties"].get("VersioningConfiguration") != {"Status": "Enabled"} and not any(reasons):
            yield f"{stack}/{name} has no versions and no reason"


def parts_of_broken_uploads_are_removed(made: Synthesised) -> Iterator[str]:
    for where, bucket in made.properties(BUCKET):
        rules = bucket.get("LifecycleConfiguration", {}).get("Rules", ())
        if not any(rule["Status"] == "Enabled" and rule.get("AbortIncompleteMultipartUpload") for rule in rules):
            yield f"{where} keeps parts of incomplete uploads"


def a_tag_never_changes_its_image_and_every_image_is_scanned(made: Synthesised) -> Iterator[str]:
    for where, repository in made.properties(REPOSITORY):
        if repository.get("ImageTagMutability") != "IMMUTABLE":
            yield f"{where} has mutable tags"
        if repository.get("ImageScanningConfiguration") != {"ScanOnPush": True}:
            yield f"{where} does not scan images"
        if not repository.get("LifecyclePolicy"):
            yield f"{where} keeps every image"


def a_table_can_be_restored_and_not_be_deleted(made: Synthesised) -> Iterator[str]:
    for where, table in made.properties(TABLE):
        if table.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled") is not True:
            yield f"{where} cannot be restored"
        if table.get("DeletionProtectionEnabled") is not True:
            yield f"{where} can be deleted"


def a_protected_table_is_the_last_resource_of_its_stack(made: Synthesised) -> Iterator[str]:
    """If a later resource failed, the stack would end in ROLLBACK_FAILED."""
    for stack, name, table in made.each(TABLE):
        before, found = set[str](), {name}
        while found:
            before |= found
            found = {other for one in found for other in references(made.templates[stack]["Resources"][one])}
            found = found & made.templates[stack]["Resources"].keys() - before
        if table["Properties"].get("DeletionProtectionEnabled") and (
            late := made.templates[stack]["Resources"].keys() - before
        ):
            yield f"{stack}/{name} may be created before {sorted(late)}"


def results_outlive_their_stack_and_the_rest_goes_with_it(made: Synthesised) -> Iterator[str]:
    for stack, template in made.templates.items():
        for name, resource in template["Resources"].items():
            found = (resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy"))
            wanted = (
                OUTLIVES if resource["Type"] in KEPT else ("Delete", "Delete") if resource["Type"] in GONE else None
            ) or PROTECTED.get(resource["Type"])
            if (wanted and found != wanted) or (not wanted and {*OUTLIVES} & {*found}):
                yield f"{stack}/{name} ({resource['Type']}) has the deletion policies {found}"


def a_repository_goes_with_its_images(made: Synthesised) -> Iterator[str]:
    for where, repository in made.properties(REPOSITORY):
        if repository.get("EmptyOnDelete") is not True:
            yield f"{where} prevents the deletion of its stack"


def logs_are_retained_for_the_configured_days(made: Synthesised) -> Iterator[str]:
    for where, group in made.properties(LOG):
        if group.get("RetentionInDays") != made.grid.log_retention_days:
            yield f"{where} keeps logs for {group.get('RetentionInDays', 'unlimited')} days"


def _refused(policy: dict[str, Any]) -> set[str]:
    """Return the conditions under which a bucket's policy denies all access to the bucket and its objects."""
    return {
        f"{key}{'<' if operator == 'NumericLessThan' else '='}{value}"
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny" and statement["Principal"] in ("*", {"AWS": "*"})
        if statement["Action"] == "s3:*" and len(listed(statement["Resource"])) == 2
        for operator, keys in statement["Condition"].items()
        for key, value in keys.items()
    }


STATEMENTS = "PolicyDocument.Statement"
RULES = (
    Rule(
        a_bucket_speaks_modern_tls_only,
        (
            removed(BUCKET_POLICY),
            without(BUCKET_POLICY, f"{STATEMENTS}.1"),
            put(BUCKET_POLICY, f"{STATEMENTS}.0.Effect", "Allow"),
        ),
    ),
    Rule(
        a_bucket_is_the_accounts_alone,
        (
            put(BUCKET, "PublicAccessBlockConfiguration.BlockPublicPolicy", False),
            without(BUCKET, "PublicAccessBlockConfiguration"),
            without(BUCKET, "OwnershipControls"),
            without(BUCKET, "BucketEncryption"),
        ),
    ),
    Rule(a_bucket_keeps_versions_or_has_a_reason, (without(BUCKET, "VersioningConfiguration"),)),
    Rule(parts_of_broken_uploads_are_removed, (without(BUCKET, "LifecycleConfiguration"),)),
    Rule(
        a_tag_never_changes_its_image_and_every_image_is_scanned,
        (
            put(REPOSITORY, "ImageTagMutability", "MUTABLE"),
            without(REPOSITORY, "ImageScanningConfiguration"),
            without(REPOSITORY, "LifecyclePolicy"),
        ),
    ),
    Rule(
        a_table_can_be_restored_and_not_be_deleted,
        (without(TABLE, "PointInTimeRecoverySpecification"), put(TABLE, "DeletionProtectionEnabled", False)),
    ),
    Rule(a_protected_table_is_the_last_resource_of_its_stack, (without(TABLE, "DependsOn", part=""),)),
    Rule(
        results_outlive_their_stack_and_the_rest_goes_with_it,
        (
            put(BUCKET, "DeletionPolicy", "Delete", part=""),
            without(TABLE, "UpdateReplacePolicy", part=""),
            put(LOG, "DeletionPolicy", "Retain", part=""),
            put("AWS::Lambda::Function", "DeletionPolicy", "Retain", part=""),
        ),
    ),
    Rule(a_repository_goes_with_its_images, (without(REPOSITORY, "EmptyOnDelete"),)),
    Rule(logs_are_retained_for_the_configured_days, (without(LOG, "RetentionInDays"),)),
)
