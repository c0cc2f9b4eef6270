"""A log that keeps what is said, and the facts beside it."""

from typing import Any


class Log:
    """What a process says, in order."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def __call__(self, sentence: str, **facts: Any) -> None:
        self.records.append({"message": sentence, **facts})

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the records of one kind of event."""
        return [record for record in self.records if record.get("event") == event]
