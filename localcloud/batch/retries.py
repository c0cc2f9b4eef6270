"""Retries of failed attempts: retryStrategy and evaluateOnExit of AWS Batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

MAX_ATTEMPTS = 10
MAX_CONDITIONS = 5
_CONDITIONS = ("onExitCode", "onReason", "onStatusReason")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one attempt.

    Attributes:
        exit_code: Exit code of the container; None if it never ran.
        reason: The container's reason ("CannotPullContainerError: ..."), or None.
        status_reason: The attempt's reason ("Essential container in task exited").
    """

    exit_code: int | None
    reason: str | None
    status_reason: str

    @property
    def has_succeeded(self) -> bool:
        """Return True if the container ran and exited with 0."""
        return self.exit_code == 0


def should_retry(strategy: Mapping[str, Any] | None, attempt: int, outcome: Outcome) -> bool:
    """Return True if a failed attempt must be retried.

    The rules are in the API reference (RetryStrategy, EvaluateOnExit): the first entry whose conditions all match
    decides, an attempt that matches no entry is retried, and the number of attempts never exceeds `attempts`.

    Args:
        strategy: `retryStrategy` of the job; None means one attempt.
        attempt: Number of the failed attempt, from 1.
        outcome: Result of that attempt.
    """
    strategy = strategy or {}
    if attempt >= int(strategy.get("attempts") or 1):
        return False
    for condition in strategy.get("evaluateOnExit") or []:
        if _matches(condition, outcome):
            return str(condition["action"]).upper() == "RETRY"
    return True


def _matches(condition: Mapping[str, str], outcome: Outcome) -> bool:
    values = {
        "onExitCode": "" if outcome.exit_code is None else str(outcome.exit_code),
        "onReason": outcome.reason or "",
        "onStatusReason": outcome.status_reason,
    }
    return all(_glob(condition[name], values[name]) for name in _CONDITIONS if condition.get(name) is not None)


def _glob(pattern: str, value: str) -> bool:
    """Match a case-sensitive pattern of Batch, whose only wildcard is an asterisk at the end."""
    literal = pattern.replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(value, literal)


def problem_with(strategy: Mapping[str, Any] | None) -> str | None:
    """Return the reason for which AWS would refuse a retryStrategy, or None."""
    if not strategy:
        return None
    attempts = strategy.get("attempts")
    if attempts is not None and not 1 <= int(attempts) <= MAX_ATTEMPTS:
        return f"retryStrategy.attempts must be between 1 and {MAX_ATTEMPTS}; got {attempts}"
    conditions: Sequence[Mapping[str, str]] = strategy.get("evaluateOnExit") or []
    if conditions and attempts is None:
        return "retryStrategy.attempts must be specified if evaluateOnExit is specified"
    if len(conditions) > MAX_CONDITIONS:
        return f"retryStrategy.evaluateOnExit has {len(conditions)} entries; at most {MAX_CONDITIONS} are allowed"
    for number, condition in enumerate(conditions):
        problem = _problem_with_condition(condition)
        if problem:
            return f"retryStrategy.evaluateOnExit[{number}]: {problem}"
    return None


def _problem_with_condition(condition: Mapping[str, str]) -> str | None:
    if str(condition.get("action", "")).upper() not in ("RETRY", "EXIT"):
        return f"action must be RETRY or EXIT; got {condition.get('action')!r}"
    patterns = {name: condition[name] for name in _CONDITIONS if condition.get(name) is not None}
    if not patterns:
        return f"at least one of {', '.join(_CONDITIONS)} must be specified"
    for name, pattern in patterns.items():
        if "*" in pattern[:-1] or len(pattern) > 512:
            return f"{name} {pattern!r} may have an asterisk only at its end, and at most 512 characters"
    code = patterns.get("onExitCode")
    if code is not None and not code.removesuffix("*").isdigit() and code != "*":
        return f"onExitCode {code!r} may have only digits and an asterisk at its end"
    return None
