"""Price lists: the price of a product is that of the first unit, in US dollars, of the term in effect."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from traingrid.aws import price_list
from traingrid.aws.price_list import Filter, Product, products
from traingrid.errors import TraingridError


class Pricing:
    """A price list service with the given entries, and the request that it received."""

    def __init__(self, *entries: Any, error: ClientError | None = None) -> None:
        self.entries, self.error, self.asked = entries, error, dict[str, Any]()

    def get_paginator(self, _operation: str) -> "Pricing":
        return self

    def paginate(self, **asked: Any) -> Any:
        self.asked = asked
        if self.error:
            raise self.error
        yield from [{"PriceList": [json.dumps(entry)]} for entry in self.entries]


def dimension(dollars: str, begin: str = "0", currency: str = "USD") -> dict[str, Any]:
    return {"unit": "GB", "beginRange": begin, "pricePerUnit": {currency: dollars}}


def entry(*terms: dict[str, Any]) -> dict[str, Any]:
    on_demand = {f"term-{number}": term for number, term in enumerate(terms)}
    return {
        "product": {"sku": "ABC", "productFamily": "Data Transfer", "attributes": {"usagetype": "USE1-X"}},
        "serviceCode": "AWSDataTransfer",
        "terms": {"OnDemand": on_demand} if terms else {},
        "publicationDate": "2026-11-20T12:00:00Z",
    }


def term(*dimensions: dict[str, Any], since: str = "2026-11-01T00:00:00Z") -> dict[str, Any]:
    return {"effectiveDate": since, "priceDimensions": dict(enumerate(dimensions))}


def read(monkeypatch: pytest.MonkeyPatch, *entries: Any) -> list[Product]:
    monkeypatch.setattr(price_list, "client", lambda *_: Pricing(*entries))
    return list(products("AWSDataTransfer", [Filter("fromRegionCode", "us-east-1")]))


def test_the_source_of_a_price_names_its_sku_and_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = read(monkeypatch, entry(term(dimension("0.0200000000"))))
    assert (found.dollars, found.unit, found.family) == (0.02, "GB", "Data Transfer")
    assert found.source == "AWSDataTransfer ABC, published 2026-11-20"


def test_the_first_of_several_tiers_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = read(monkeypatch, entry(term(dimension("0.05", "10240"), dimension("0.09", "0"))))
    assert found.dollars == 0.09


def test_a_term_of_the_future_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    later, previous = (
        term(dimension("9"), since="2999-01-01T00:00:00Z"),
        term(dimension("5"), since="2020-01-01T00:00:00Z"),
    )
    (found,) = read(monkeypatch, entry(later, previous, term(dimension("7"))))
    assert found.dollars == 7
    assert read(monkeypatch, entry(later)) == []


def test_products_without_a_price_in_dollars_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, entry(), entry(term(dimension("0.9", currency="CNY")))) == []


def test_a_product_of_an_unknown_form_is_an_error_that_names_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = entry(term({"unit": "GB", "pricePerUnit": {"USD": "cheap"}}))
    with pytest.raises(TraingridError, match=r"terms\.OnDemand.*pricePerUnit\.USD"):
        read(monkeypatch, wrong)


def test_a_missing_permission_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: pricing:GetProducts"
    error = ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, "GetProducts")
    monkeypatch.setattr(price_list, "client", lambda *_: Pricing(error=error))
    with pytest.raises(TraingridError, match="Allow the caller pricing:GetProducts"):
        list(products("AmazonSageMaker", []))


def test_filters_are_sent_in_the_form_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Pricing()
    monkeypatch.setattr(price_list, "client", lambda *_: service)
    list(products("AmazonSageMaker", [Filter("usagetype", "Train:", "CONTAINS")]))
    assert service.asked == {
        "ServiceCode": "AmazonSageMaker",
        "Filters": [{"Type": "CONTAINS", "Field": "usagetype", "Value": "Train:"}],
    }
