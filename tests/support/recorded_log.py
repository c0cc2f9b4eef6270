"""Log: a logger for tests that keeps sentences and facts."""

from typing import Any


class Log:
    """The log records of a process, in order."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def __call__(self, sentence: str, **facts: Any) -> None:
        self.records.append({"message": sentence, **facts})

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the records of one kind of event."""
        return [record for record in self.records if record.get("event") == event]
