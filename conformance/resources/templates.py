"""CloudFormation stacks with small templates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from conformance.aws import Aws

STACK_ENDED = ("COMPLETE", "FAILED")


class Stack:
    """A stack in one Region."""

    def __init__(self, aws: Aws, name: str = "", region: str = "") -> None:
        self.aws, self.api, self.name = aws, aws.client("cloudformation", region), name or aws.name("stack")

    def deploy(self, resources: dict[str, Any], **more: Any) -> str:
        """Create or update the stack, and return its final status."""
        body = json.dumps({"Resources": resources, **more})
        request = {"StackName": self.name, "TemplateBody": body, "Tags": self.aws.tags()}
        request["Capabilities"] = ["CAPABILITY_NAMED_IAM"]
        if self.status():
            self.api.update_stack(**request)
        else:
            self.aws.undo.later(f"stack {self.name}", self.delete)
            self.api.create_stack(**request)
        return self.ended()

    def status(self) -> str:
        """Return the stack's status; empty if there is no stack."""
        try:
            return str(self.api.describe_stacks(StackName=self.name)["Stacks"][0]["StackStatus"])
        except ClientError as error:
            if "does not exist" in error.response["Error"]["Message"]:
                return ""
            raise

    def ended(self) -> str:
        """Wait until the stack has stopped changing, and return its status; empty if it was deleted."""
        self.aws.wait(lambda: self.status().endswith(STACK_ENDED) or not self.status(), f"stack {self.name}")
        return self.status()

    def delete(self) -> str:
        """Delete the stack, and return its final status; empty if it was deleted."""
        if self.status():
            self.api.delete_stack(StackName=self.name)
        return self.ended()

    def id_of(self, logical_id: str) -> str:
        """Return the physical id of a resource."""
        detail = self.api.describe_stack_resource(StackName=self.name, LogicalResourceId=logical_id)
        return str(detail["StackResourceDetail"]["PhysicalResourceId"])

    def reasons(self) -> str:
        """Return the status reasons of all events of the stack."""
        events = self.api.describe_stack_events(StackName=self.name)["StackEvents"]
        return " ".join(event.get("ResourceStatusReason", "") for event in events)
