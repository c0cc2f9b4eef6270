"""The price lists of localcloud: filters, pages and refusals of GetProducts, and the history of spot prices."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings


@pytest.fixture(scope="module", autouse=True)
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with (
        LocalCloud(Settings(data_dir=tmp_path_factory.mktemp("prices"))) as running,
        pytest.MonkeyPatch.context() as env,
    ):
        for name, value in user_environment(running.endpoint_url).items():
            env.setenv(name, value)
        yield running


def listed(service: str = "AmazonSageMaker", **options: Any) -> dict[str, Any]:
    region = options.pop("region", "us-east-1")
    pricing: Any = boto3.client("pricing", region_name=region)
    return dict(pricing.get_products(ServiceCode=service, **options))


def match(field: str, value: str, kind: str = "TERM_MATCH") -> dict[str, str]:
    return {"Type": kind, "Field": field, "Value": value}


def refusal(service: str = "AmazonSageMaker", **options: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        listed(service, **options)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_product_is_json_text_in_the_form_of_a_recorded_reply() -> None:
    filters = [match("regionCode", "eu-west-1"), match("usagetype", "EU-Train:ml.g5.xlarge")]
    (text,) = listed(Filters=filters)["PriceList"]
    entry = json.loads(text)
    assert entry.keys() == {"product", "serviceCode", "terms", "version", "publicationDate"}
    assert entry["product"].keys() == {"productFamily", "attributes", "sku"}
    ((code, term),) = entry["terms"]["OnDemand"].items()
    assert code == f"{entry['product']['sku']}.JRTCKXETXF"
    assert term.keys() == {"priceDimensions", "sku", "effectiveDate", "offerTermCode", "termAttributes"}
    (dimension,) = term["priceDimensions"].values()
    assert dimension["unit"] == "Hrs"
    assert float(dimension["pricePerUnit"]["USD"]) == pytest.approx(1.4 * 1.11)


def test_all_filters_must_match() -> None:
    filters = [match("regionCode", "us-east-1"), match("usagetype", "Train:ml.", "CONTAINS")]
    found = [json.loads(text)["product"]["attributes"] for text in listed(Filters=filters)["PriceList"]]
    assert {(one["regionCode"], one["component"]) for one in found} == {("us-east-1", "Training")}
    assert listed(Filters=[*filters, match("operation", "other")])["PriceList"] == []
    assert listed(Filters=[match("colour", "blue")])["PriceList"] == []


def test_pages_contain_every_product_once() -> None:
    pricing: Any = boto3.client("pricing", region_name="us-east-1")
    pages = list(pricing.get_paginator("get_products").paginate(ServiceCode="AmazonSageMaker"))
    skus = [json.loads(text)["product"]["sku"] for page in pages for text in page["PriceList"]]
    assert len(pages) > 1
    assert len(set(skus)) == len(skus) > 200
    assert max(len(page["PriceList"]) for page in pages) == 100


def test_a_token_is_valid_for_its_own_request_only() -> None:
    token = listed(MaxResults=2)["NextToken"]
    assert len(listed(MaxResults=2, NextToken=token)["PriceList"]) == 2
    assert refusal("AWSDataTransfer", MaxResults=2, NextToken=token)[0] == "InvalidNextTokenException"
    assert refusal(NextToken="2")[0] == "InvalidNextTokenException"


@pytest.mark.parametrize(
    ("service", "code", "text"),
    [
        ("", "InvalidParameterException", "serviceCode cannot be null or empty"),
        ("Amazon SageMaker", "InvalidParameterException", "ServiceCode can only contain a-z, A-Z, 0-9"),
        ("AmazonSageMaster", "NotFoundException", "can't be found"),
    ],
)
def test_an_invalid_service_code_is_refused(service: str, code: str, text: str) -> None:
    found = refusal(service)
    assert found[0] == code
    assert text in found[1]


def test_an_unknown_kind_of_filter_is_refused() -> None:
    assert "enum value set" in refusal(Filters=[match("regionCode", "us-east-1", "LIKE")])[1]
    assert "localcloud does not support" in refusal(Filters=[match("regionCode", "us-east-1", "ANY_OF")])[1]


def test_only_some_regions_have_an_endpoint() -> None:
    assert listed(region="eu-central-1")["PriceList"]
    assert "no endpoint in eu-west-1" in refusal(region="eu-west-1")[1]


def test_other_operations_are_refused() -> None:
    pricing: Any = boto3.client("pricing", region_name="us-east-1")
    with pytest.raises(ClientError, match="DescribeServices has not been implemented"):
        pricing.describe_services()


def spot(**options: Any) -> list[dict[str, Any]]:
    ec2: Any = boto3.client("ec2", region_name="us-east-1")
    return list(ec2.describe_spot_price_history(**options)["SpotPriceHistory"])


def test_spot_prices_in_effect_now_are_one_for_each_zone() -> None:
    found = spot(InstanceTypes=["g5.xlarge"], ProductDescriptions=["Linux/UNIX"], StartTime=datetime.now(UTC))
    assert sorted(one["AvailabilityZone"] for one in found) == ["us-east-1a", "us-east-1b", "us-east-1c"]
    assert max(one["Timestamp"] for one in found) < datetime.now(UTC)


def test_a_range_of_times_adds_the_changes_within_it() -> None:
    since = datetime.now(UTC) - timedelta(days=1)
    zone = [{"Name": "availability-zone", "Values": ["us-east-1a"]}, {"Name": "instance-type", "Values": ["g5.xlarge"]}]
    found = spot(Filters=zone, StartTime=since)
    assert [one["Timestamp"] >= since for one in found] == [True, False]
    assert float(found[1]["SpotPrice"]) == pytest.approx(1.25 * float(found[0]["SpotPrice"]))


def test_a_type_without_spot_instances_has_no_price() -> None:
    assert spot(Filters=[{"Name": "instance-type", "Values": ["p5.48xlarge"]}]) == []
    assert spot(ProductDescriptions=["Windows"]) == []
    with pytest.raises(ClientError, match="colour"):
        spot(Filters=[{"Name": "colour", "Values": ["blue"]}])
