"""The largest manifest: the default limit of jobs, whose lines take seconds to read."""

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.parse import parse


def test_fifty_thousand_lines_are_read_and_one_more_is_refused() -> None:
    with pytest.raises(ManifestError, match="at most 50,000 jobs") as caught:
        parse(b"us-east-1,s3://ragab-ml/x\n" * 50_001, sample_deployment())
    assert caught.value.total == 1, "each of the first 50,000 lines is valid"
