"""Regions of trainers: the arguments that are not the SDK's; tests/notebook/sdk tests the others."""

from typing import Any

import pytest

from traingrid.api.model_trainer import _check_regions
from traingrid.errors import UsageError

NO_LIST = "The regions are not a list of Regions."
NO_DATA = "data is not a dictionary by Region"


@pytest.mark.parametrize(
    ("regions", "data", "what"),
    [
        ("us-east-1", {}, NO_LIST),
        ({"us-east-1"}, {}, NO_LIST),
        (None, {}, NO_LIST),
        ([], {}, NO_LIST),
        (["us-east-1", "us-east-1"], {}, "A Region is given twice."),
        (["us-east-1"], {"eu-west-1": {}}, NO_DATA),
        (["us-east-1"], [], NO_DATA),
    ],
)
def test_wrong_regions_and_data_are_refused(regions: Any, data: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        _check_regions(regions, data)


@pytest.mark.parametrize("regions", [["us-east-1"], ("us-east-1", "eu-west-1")])
def test_a_list_or_tuple_of_regions_is_accepted(regions: Any) -> None:
    _check_regions(regions, {"us-east-1": {}})
