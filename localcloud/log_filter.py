"""Log filter: the filter patterns of CloudWatch Logs for unstructured events; moto 5.2.5 has those of a single term.

Queries of CloudWatch Logs Insights are refused: moto sees none of the events that localcloud stores.

The syntax is that of https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html, and the
examples of tests/integration/localcloud/test_log_filter.py are AWS's.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moto.logs import models
from moto.logs.exceptions import InvalidParameterException

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_TERM = re.compile(r'(?P<sign>[-?]?)(?:"(?P<phrase>(?:[^"\\]|\\.)*)"|(?P<word>[^\s"]+))(?:\s+|$)')
_STRUCTURED = {"{": "of JSON", "[": "of columns", "%": "with regular expressions"}


class _Filter:
    """A filter as moto's log streams use it."""

    def __init__(self, pattern: str | None) -> None:
        self.matches = message_filter(pattern)


def install(cloud: "LocalCloud") -> None:
    """Replace moto's filter patterns and queries."""
    cloud.replace(models, EventMessageFilter=_Filter)
    cloud.replace(models.LogsBackend, start_query=_refuse_query)


def _refuse_query(*_: Any, **__: Any) -> str:
    text = (
        "localcloud runs no queries of CloudWatch Logs Insights; read the events with FilterLogEvents or GetLogEvents."
    )
    raise InvalidParameterException(msg=text)


def message_filter(pattern: str | None) -> Callable[[str], bool]:
    """Return a function that returns True for a message that matches a pattern.

    A message must have all terms, none of those with a minus, and one of those with a question mark. These have no
    effect beside other terms.

    Raises:
        InvalidParameterException: The pattern is not valid, or of a kind that localcloud does not model.
    """
    pattern = (pattern or "").strip()
    if kind := _STRUCTURED.get(pattern[:1]):
        raise InvalidParameterException(msg=f"localcloud has no filter patterns {kind}, only terms: {pattern}")
    terms: dict[str, list[str]] = {"": [], "-": [], "?": []}
    position = 0
    while position < len(pattern):
        match = _TERM.match(pattern, position)
        if match is None:
            raise InvalidParameterException(msg=f"Invalid filter pattern: {pattern}")
        phrase = match["word"] if match["phrase"] is None else re.sub(r"\\(.)", r"\1", match["phrase"])
        terms[match["sign"]].append(phrase)
        position = match.end()
    required, excluded, optional = terms[""], terms["-"], terms["?"]
    if required or excluded:
        optional = []

    def matches(message: str) -> bool:
        has_all = all(term in message for term in required) and not any(term in message for term in excluded)
        return has_all and (not optional or any(term in message for term in optional))

    return matches
