"""Notifications: the `notifications` section of grid.yaml, which enables messages about submissions."""

from pydantic import Field

from traingrid.grid.alarms import Email
from traingrid.grid.part import GridPart


class Notifications(GridPart):
    """Messages about the first failure, the budget and the end of each submission, to an SNS topic."""

    emails: tuple[Email, ...] = Field(default=(), max_length=10, examples=[["team@example.com"]])
    """Addresses that are subscribed to the topic; each must confirm once. Chats, queues and functions can be subscribed
    to it as well."""
