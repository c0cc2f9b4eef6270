"""Condition operators of IAM's policies.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html. Operators for
dates, addresses and binary data are omitted, because no policy here uses them; an unknown operator is an error.
"""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from localcloud.iam.request_keys import Context


class UnknownOperatorError(Exception):
    """A policy contains a condition operator that localcloud does not evaluate."""


def conditions_hold(conditions: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    """Return True if a request meets all conditions of a statement; keys are case-insensitive."""
    value_by_key = {key.lower(): value for key, value in context.items()}
    return all(
        _matches(operator_name, [_text(value) for value in _as_list(required)], value_by_key.get(key.lower()))
        for operator_name, required_by_key in conditions.items()
        for key, required in required_by_key.items()
    )


def _matches(operator_name: str, required: list[str], actual: str | list[str] | None) -> bool:
    """Return True if an operator matches a key's value: None if absent, a list if multivalued.

    A multivalued key requires ForAllValues or ForAnyValue even if the request has one value
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html).
    Without a quantifier, no operator matches it, not even a negated one: singleValueMatch of
    @cloud-copilot/iam-simulate 0.1.173 cites AWS's confirmation (re:Inforce 2025, IAM431).
    """
    if operator_name == "Null":
        return (actual is None) == (required == ["true"])
    quantifier, _, plain = operator_name.rpartition(":")
    plain, or_absent = plain.removesuffix("IfExists"), plain.endswith("IfExists")
    compare = _comparison_for(plain)
    if actual is None:
        return or_absent or quantifier == "ForAllValues" or (plain in _NEGATED and quantifier != "ForAnyValue")
    if isinstance(actual, list) and not quantifier:
        return False
    results = [compare(str(value), required) for value in _as_list(actual)]
    return all(results) if quantifier == "ForAllValues" else any(results)


def _comparison_for(operator_name: str) -> Callable[[str, list[str]], bool]:
    """Return the function that compares a value with the values of a condition, of which one must match."""
    if operator_name in _NEGATED:
        matches = _comparison_for(_NEGATED[operator_name])
        return lambda value, candidates: not matches(value, candidates)
    if operator_name not in _OPERATORS:
        message = f"localcloud does not evaluate the condition operator {operator_name}"
        raise UnknownOperatorError(message)
    compare = _OPERATORS[operator_name]
    return lambda value, candidates: any(compare(value, candidate) for candidate in candidates)


def _is_like(value: str, pattern: str) -> bool:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, value, re.DOTALL) is not None


def _is_like_arn(value: str, pattern: str) -> bool:
    """Match each of an ARN's six parts separately: a wildcard does not match a colon."""
    values, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(values) == len(patterns) and all(map(_is_like, values, patterns))


def _numeric(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    return lambda value, required: compare(float(value), float(required))


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": operator.eq,
    "StringEqualsIgnoreCase": lambda value, wanted: value.lower() == wanted.lower(),
    "StringLike": _is_like,
    "ArnEquals": _is_like_arn,  # "ArnEquals and ArnLike behave identically"
    "ArnLike": _is_like_arn,
    "Bool": lambda value, wanted: value.lower() == wanted.lower(),
    "NumericEquals": _numeric(operator.eq),
    "NumericLessThan": _numeric(operator.lt),
    "NumericLessThanEquals": _numeric(operator.le),
    "NumericGreaterThan": _numeric(operator.gt),
    "NumericGreaterThanEquals": _numeric(operator.ge),
}
_NEGATED = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NumericNotEquals": "NumericEquals",
}


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
