"""Tags of a call's resource as condition keys, for the resources that this grid's policies restrict by tag."""

from moto.batch.models import batch_backends

from localcloud.iam.request_keys import Context


def of_batch(account: str, region: str, arn: str) -> Context:
    """Return the keys aws:ResourceTag/... of a Batch resource; empty if it does not exist."""
    tags: dict[str, str] = batch_backends[account][region].list_tags_for_resource(arn)
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
