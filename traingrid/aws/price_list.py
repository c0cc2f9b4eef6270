"""Price list: reads products with their prices on demand from the AWS Price List Query API.

GetProducts returns each product as JSON text
(https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html). A public record of a
reply is in https://github.com/aws/aws-sdk-java/issues/2190.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError
from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from traingrid.aws.access_denied import access_denied
from traingrid.aws.clients import client
from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REGION = "us-east-1"
"""The Region of the endpoint that is asked; the service has endpoints in few Regions (botocore's endpoints.json), and
each of them has the prices of all Regions."""


class Filter(NamedTuple):
    """A condition on products.

    Attributes:
        field: The name of an attribute.
        kind: `TERM_MATCH` for the value itself, `CONTAINS` for a part of it (FilterType in the service model).
    """

    field: str
    value: str
    kind: str = "TERM_MATCH"


@dataclass(frozen=True, kw_only=True)
class Product:
    """A product with its price on demand.

    Attributes:
        service: The service code, such as "AmazonSageMaker".
        family: The product family, such as "ML Instance".
        attributes: The product's attributes by name.
        dollars: The price of one unit in US dollars; with several tiers, the price of the first unit.
        unit: The unit, such as "Hrs" or "GB".
        published: The day on which AWS published the price list.
    """

    service: str
    sku: str
    family: str
    attributes: Mapping[str, str]
    dollars: float
    unit: str
    published: date

    @property
    def source(self) -> str:
        """The source of the price, for the catalog."""
        return f"{self.service} {self.sku}, published {self.published}"


class _Dimension(BaseModel):
    unit: str
    beginRange: float = 0  # noqa: N815  # AWS's name
    pricePerUnit: dict[str, float]  # noqa: N815  # AWS's name


class _Term(BaseModel):
    effectiveDate: AwareDatetime  # noqa: N815  # AWS's name
    priceDimensions: dict[str, _Dimension]  # noqa: N815  # AWS's name


class _Described(BaseModel):
    sku: str
    productFamily: str = ""  # noqa: N815  # AWS's name
    attributes: dict[str, str]


class _Terms(BaseModel):
    OnDemand: dict[str, _Term] = Field(default={})


class _PriceEntry(BaseModel):
    product: _Described
    serviceCode: str  # noqa: N815  # AWS's name
    terms: _Terms = _Terms()
    publicationDate: AwareDatetime  # noqa: N815  # AWS's name


def products(service: str, filters: Iterable[Filter]) -> Iterator[Product]:
    """Yield the products of a service that match all filters and have a price in US dollars.

    Args:
        service: The service code.

    Raises:
        TraingridError: The caller may not read price lists, or a product has an unknown form.
        ClientError: AWS refuses the request.
        BotoCoreError: AWS does not answer.
    """
    fields = [{"Type": filter_.kind, "Field": filter_.field, "Value": filter_.value} for filter_ in filters]
    pages = client("pricing", REGION).get_paginator("get_products").paginate(ServiceCode=service, Filters=fields)
    try:
        for page in pages:
            for text in page["PriceList"]:
                product = _product(service, text)
                if product is not None:
                    yield product
    except ClientError as error:
        if denial := access_denied(error):
            step = f"Allow the caller {denial.action}."
            raise TraingridError(f"AWS denied the price list of {service}: {denial}.", step) from error
        raise


def _product(service: str, text: str) -> Product | None:
    """Return the product of one entry of a price list, or None if it has no price in US dollars now."""
    try:
        entry = _PriceEntry.model_validate_json(text)
    except ValidationError as error:
        first_error = error.errors()[0]
        field_path = ".".join(map(str, first_error["loc"]))
        message = f"A product in the price list of {service} has an unknown form: {field_path}: {first_error['msg']}."
        raise TraingridError(
            message, "Nothing was changed. Upgrade traingrid, or import prices from a file."
        ) from error
    dimension = _first_tier(entry.terms.OnDemand.values())
    if dimension is None:
        return None
    return Product(
        service=entry.serviceCode,
        sku=entry.product.sku,
        family=entry.product.productFamily,
        attributes=entry.product.attributes,
        dollars=dimension.pricePerUnit["USD"],
        unit=dimension.unit,
        published=entry.publicationDate.date(),
    )


def _first_tier(terms: Iterable[Any]) -> _Dimension | None:
    """Return the price of the first unit in US dollars, of the latest term in effect; Regions in China have none."""
    now = datetime.now(UTC)
    in_effect = [term for term in terms if term.effectiveDate <= now]
    if not in_effect:
        return None
    latest = max(in_effect, key=lambda term: term.effectiveDate)
    tiers = [tier for tier in latest.priceDimensions.values() if "USD" in tier.pricePerUnit]
    return min(tiers, key=lambda tier: tier.beginRange, default=None)
