"""Bucket names: the rules for general purpose buckets that AWS documents."""

import pytest
from moto.s3.exceptions import InvalidBucketName

from localcloud.s3.bucket_names import check_bucket_name


@pytest.mark.parametrize("name", ["abc", "traingrid-data-123456789012-us-east-1", "a.b-c", "s3alias", "a-s3", "a" * 63])
def test_a_bucket_may_have_this_name(name: str) -> None:
    check_bucket_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("ab", "Upper", "under_score", "-a-b", "a-b-", "a..b", "192.168.0.1", "a" * 64),
        *("xn--abc", "sthree-abc", "amzn-s3-demo-a", "a-s3alias", "a--ol-s3", "abc.mrap", "a--x-s3", "a--table-s3"),
    ],
)
def test_no_bucket_may_have_this_name(name: str) -> None:
    with pytest.raises(InvalidBucketName):
        check_bucket_name(name)
