"""What IAM knows of the resource that a call is for: its tags, where this grid's policies have conditions on them."""

from moto.batch.models import batch_backends

from localcloud.iam.request_keys import Context


def of_batch(account: str, region: str, arn: str) -> Context:
    """The keys aws:ResourceTag/... of something of Batch; none for what does not exist."""
    tags: dict[str, str] = batch_backends[account][region].list_tags_for_resource(arn)
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
