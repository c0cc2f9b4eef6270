"""Price List Query API: GetProducts, with filters and pages.

Its service model: botocore's `pricing`. The texts of refusals are AWS's if they are public; each cites its source.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from werkzeug.wrappers import Response

from localcloud.pricing.products import price_list
from localcloud.wire import service_model
from localcloud.wire.protocols import read_call
from localcloud.wire.record import StartResponse, WsgiApp, buffered
from localcloud.wire.refusals import refusal
from localcloud.wire.signature import signature_of

ENDPOINTS = ("us-east-1", "eu-central-1", "ap-south-1")
"""The Regions with an endpoint of the service (botocore's endpoints.json)."""
PAGE = 100
"""Products of a page without MaxResults, and the maximum in the service model."""


class PriceListError(Exception):
    """The service refuses a request.

    Args:
        code: The error's code, as in the service model.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PriceLists:
    """WSGI middleware that answers the calls of the service `pricing`, and forwards all others."""

    def __init__(self, application: WsgiApp) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer or forward a request.

        Raises:
            NotImplementedError: The operation is not GetProducts.
        """
        signature = signature_of(environ)
        if signature is None or signature.service != "pricing":
            return self._application(environ, start_response)
        call = read_call("pricing", buffered(environ))
        if call is None or call.action != "GetProducts":
            message = f"The operation {call.action if call else environ['PATH_INFO']} has not been implemented"
            raise NotImplementedError(message)
        try:
            reply = get_products(call.parameters, signature.region)
        except PriceListError as error:
            refusal_response = refusal(environ, HTTPStatus.BAD_REQUEST, error.code, str(error), "pricing")
            return refusal_response(environ, start_response)
        response = Response(json.dumps(reply), mimetype="application/x-amz-json-1.1")
        return response(environ, start_response)


def get_products(request: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Return one page of the products that match all filters.

    Args:
        region: The Region of the endpoint.

    Raises:
        RefusedError: AWS refuses the request, or localcloud lacks a feature.
    """
    if region not in ENDPOINTS:  # AWS has no address there, so its clients cannot even connect
        raise PriceListError("InvalidAction", f"pricing has no endpoint in {region}, only in {', '.join(ENDPOINTS)}")
    products = _products_of(str(request.get("ServiceCode") or ""))
    if problems := service_model.violations("pricing", "GetProducts", request):
        raise PriceListError("InvalidParameterException", service_model.sentence(problems))
    if request.get("FormatVersion", "aws_v1") != "aws_v1":
        raise PriceListError("InvalidParameterException", "Input Parameters are invalid. FormatVersion must be aws_v1")
    filters = request.get("Filters") or []
    matching_products = [
        json.dumps(product) for product in products if all(_matches(product, condition) for condition in filters)
    ]
    start = _start(request)
    size = int(request.get("MaxResults") or PAGE)
    more = {"NextToken": _token(request, start + size)} if start + size < len(matching_products) else {}
    return {"FormatVersion": "aws_v1", "PriceList": matching_products[start : start + size], **more}


def _products_of(service: str) -> tuple[dict[str, Any], ...]:
    if not service:  # the text: https://github.com/aws/aws-sdk-js/issues/3329
        raise PriceListError(
            "InvalidParameterException", "Input Parameters are invalid. serviceCode cannot be null or empty"
        )
    if not re.fullmatch(r"[A-Za-z0-9]+", service):  # the text: https://github.com/cloud-barista/cb-spider/issues/1055
        raise PriceListError("InvalidParameterException", "ServiceCode can only contain a-z, A-Z, 0-9")
    products = price_list(service)
    if products is None:  # the code and text are those of the service model; no record of a refusal was found
        raise PriceListError("NotFoundException", "The requested resource can't be found.")
    return products


def _matches(product: Mapping[str, Any], condition: Mapping[str, str]) -> bool:
    """Return True if a product matches a filter; a product without the attribute does not."""
    field, value, kind = condition["Field"], condition["Value"], condition["Type"]
    product_description = product["product"]
    values = {"ServiceCode": product["serviceCode"], "productFamily": product_description["productFamily"]}
    actual = {**values, **product_description["attributes"]}.get(field)
    if kind in ("TERM_MATCH", "EQUALS"):
        return bool(actual == value)
    if kind == "CONTAINS":
        return actual is not None and value in actual
    raise PriceListError("InvalidParameterException", f"localcloud does not support filters of type {kind}")


def _token(request: Mapping[str, Any], start: int) -> str:
    """Return the token of the page that starts at a number; it is valid for the same request only."""
    same = {name: request.get(name) for name in ("ServiceCode", "Filters", "MaxResults")}
    return base64.b64encode(json.dumps([start, same]).encode()).decode()


def _start(request: Mapping[str, Any]) -> int:
    token = request.get("NextToken")
    if not token:
        return 0
    try:
        start = int(json.loads(base64.b64decode(token))[0])
    except (ValueError, TypeError, LookupError):
        start = -1
    if start < 0 or _token(request, start) != token:
        raise PriceListError(
            "InvalidNextTokenException", "The pagination token is invalid. Try again without a pagination token."
        )
    return start
