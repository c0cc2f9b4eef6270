"""Encryption: the `encryption` section of grid.yaml, with the keys that encrypt data at rest."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from traingrid.grid.field_types import RegionName, broken_rule
from traingrid.grid.part import GridPart
from traingrid.names import region_of_arn

KeyArn = Annotated[
    str,
    StringConstraints(
        pattern=r"^arn:aws:kms:[a-z0-9-]+:[0-9]{12}:key/([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32})$",
        strict=True,
    ),
]
"""The ARN of a KMS key (https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id). Aliases are not
accepted, because they can be moved to another key, and policies cannot refer to a key by its alias."""


class Encryption(GridPart):
    """The keys that encrypt the grid's buckets, ledger, queues, logs and images at rest."""

    kind: Literal["s3", "kms"] = Field(default="s3", examples=["kms"])
    """s3: keys that AWS owns, without cost. kms: one KMS key of the account in each Region, whose use CloudTrail
    records and whose key policy controls decryption; $1 a month for each key that the grid creates."""
    keys: dict[RegionName, KeyArn] = Field(
        default={},
        examples=[{"us-east-1": "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"}],
    )
    """Your own keys, one for the home Region and for each training Region; by default every stack creates one."""

    @model_validator(mode="after")
    def _keys_of_their_regions(self) -> Self:
        if self.keys and self.kind != "kms":
            raise broken_rule("keys have no effect with kind s3; write `kind: kms`, or remove keys", at="keys")
        for region, key in self.keys.items():
            if (key_region := region_of_arn(key)) != region:
                rule = f"the key of {region} is in {key_region}, but a key encrypts only in its own Region"
                raise broken_rule(rule, at="keys")
        return self


def check_keys(keys: Mapping[str, str], regions: set[str]) -> None:
    """Raise an error unless custom keys are exactly one for each Region, including the home Region."""
    missing = sorted(regions - set(keys))
    unused = sorted(set(keys) - regions)
    if keys and missing:
        raise broken_rule(f"no key for {', '.join(missing)}; specify one for every Region, or none", "keys")
    if keys and unused:
        raise broken_rule(f"a key for {', '.join(unused)}, which is not a Region of the grid; remove it", "keys")
