from typing import Any

import pytest

from tests.support.copies import two_buckets


@pytest.fixture
def s3(aws: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """S3 with the data buckets of two Regions."""
    return two_buckets(monkeypatch)
