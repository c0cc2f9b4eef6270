"""Bucket names that S3 refuses for new general purpose buckets; moto 5.2.5 checks only their length.

The rules are those of https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html.
"""

import re

from moto.s3.exceptions import InvalidBucketName

_NAME = re.compile(r"(?!\d+\.\d+\.\d+\.\d+$)(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


def check_bucket_name(name: str) -> None:
    """Raise InvalidBucketName if no new bucket can have this name."""
    if not _NAME.fullmatch(name) or name.startswith(_RESERVED_PREFIXES) or name.endswith(_RESERVED_SUFFIXES):
        raise InvalidBucketName
