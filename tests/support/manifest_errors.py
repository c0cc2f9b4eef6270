"""Manifest errors: reads the text of a manifest in the sample deployment, or returns the only error in it."""

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.manifest.errors import LineError, ManifestError
from traingrid.manifest.line import Line
from traingrid.manifest.parse import parse

DEPLOYMENT = sample_deployment()


def lines_of(content: str) -> list[Line]:
    return parse(content.encode(), DEPLOYMENT)


def only_error(content: str) -> LineError:
    with pytest.raises(ManifestError) as caught:
        lines_of(content)
    (error,) = caught.value.errors
    return error
