"""Training history: a stand-in for SageMaker with many ended training jobs, whose lists take long."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from traingrid import names

SECONDS_OF_A_PAGE = 0.5
"""The time of a page at two calls per second."""


class History:
    """SageMaker with ended training jobs, of which a list by state returns empty pages with a token.

    Attributes:
        requests: The requests.
        now: The time, which each page advances.
    """

    def __init__(self, pages: int, *, repeats: bool = False) -> None:
        self.pages, self.repeats = pages, repeats
        self.requests: list[dict[str, Any]] = []
        self.now, self.read = time.time(), 0

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=self.paginate if operation == "list_training_jobs" else self.tags)

    def tags(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Tags": []}]

    def paginate(self, **request: Any) -> Iterator[dict[str, Any]]:
        self.requests.append(request)
        name = names.training_job("traingrid", "0123abcd", 0, 1)
        at = datetime.fromtimestamp(self.now, UTC)
        summary: dict[str, Any] = {"TrainingJobName": name, "TrainingJobArn": name, "CreationTime": at}
        summary["TrainingJobStatus"] = "InProgress"
        for number in range(self.pages):
            self.now, self.read = self.now + SECONDS_OF_A_PAGE, self.read + 1
            found = [summary] if number == 0 or self.repeats else []
            yield {"TrainingJobSummaries": found, "Tags": []} | (
                {"NextToken": "more"} if number < self.pages - 1 else {}
            )
