"""Custom resources: invokes a Lambda function and waits for the response at a unique URL."""

import json
import queue
import uuid
from typing import Any

from werkzeug.wrappers import Request, Response

from localcloud.cloudformation.context import Context, Provisioned, ProvisioningError, without
from localcloud.cloudformation.providers.base import Properties, Provider, provisioned

PAGE = "/localcloud/cloudformation/answers/"
_HOUR = 3600
_waiting: dict[str, "queue.SimpleQueue[dict[str, Any]]"] = {}


def serve_answers(request: Request) -> Response:
    """Accept a response, as S3 does at the presigned URL of AWS."""
    waiting = _waiting.get(request.path.removeprefix(PAGE))
    if waiting is None or request.method != "PUT":
        return Response(status=403)
    waiting.put(json.loads(request.get_data()))
    return Response(status=200)


def give_up() -> None:
    """Fail all pending requests when the server stops."""
    for waiting in list(_waiting.values()):
        waiting.put({"Status": "FAILED", "Reason": "localcloud is stopping"})


class CustomResourceProvider(Provider):
    """Custom::Anything and AWS::CloudFormation::CustomResource."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Request the creation of a resource."""
        return self._ask(context, kind, {"RequestType": "Create"}, properties)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Request an update; a different physical id in the response means that the old resource must be deleted."""
        before = {"PhysicalResourceId": old.physical_resource_id, "OldResourceProperties": _texts(old.properties)}
        return self._ask(context, old.cf_resource_type, {"RequestType": "Update", **before}, properties)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Request the deletion of a resource."""
        kind, physical_id = resource.cf_resource_type, resource.physical_resource_id
        request = {"RequestType": "Delete", "PhysicalResourceId": physical_id}
        self._ask(context, kind, request, resource.properties)

    def _ask(self, context: Context, kind: str, request: Properties, properties: Properties) -> Provisioned:
        """Send a request and wait for the response.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-requests.html
        """
        token = uuid.uuid4().hex
        _waiting[token] = queue.SimpleQueue()
        event = {
            **request,
            "RequestId": str(uuid.uuid4()),
            "ResponseURL": f"{context.clients.endpoint_url}{PAGE}{token}",
            "ResourceType": kind,
            "LogicalResourceId": context.logical_id,
            "StackId": context.stack_id,
            "ResourceProperties": _texts(without(properties, "ServiceTimeout")),
        }
        try:
            function = properties["ServiceToken"]
            context.client("lambda").invoke(FunctionName=function, InvocationType="Event", Payload=json.dumps(event))
            reply = _waiting[token].get(timeout=float(properties.get("ServiceTimeout", _HOUR)))
        except queue.Empty:
            message = "CloudFormation did not receive a response from your Custom Resource."
            raise ProvisioningError(message) from None
        finally:
            del _waiting[token]
        if reply["Status"] != "SUCCESS":
            text = reply.get("Reason") or "See the details in CloudWatch Log Stream"
            message = f"Received response status [FAILED] from custom resource. Message returned: {text}"
            raise ProvisioningError(message)
        return provisioned(context, kind, reply["PhysicalResourceId"], **reply.get("Data", {}))


def _texts(value: Any) -> Any:
    """Convert properties to the form that a function receives: every scalar is text."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
