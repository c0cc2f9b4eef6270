"""Public evidence of the permissions that AWS requires: refusals in real accounts, and AWS documentation.

Each file refusals/*.yaml is a list of records for one service. A record takes precedence over the Service Authorization
Reference: it adds a permission to a call, or makes an optional resource type of the reference a required one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

FOLDER = Path(__file__).parent / "refusals"


class Record(BaseModel):
    """One public record.

    Attributes:
        call: The call, as "service:Operation"; `each` lists further calls to which the record applies.
        when: Request parameter or resource type that makes the permission necessary; empty for every call.
        instead_of: Action that the call does not require in that case.
        action: Required action; empty if the call requires none.
        resources: Types of the required resources, as in the reference of the action's service.
        named: True if the types are required only when the request names such a resource.
        context: Condition keys with fixed values.
        via: Service whose name is in kms:ViaService, or "kms" if KMS is called directly.
        kind: "refused": AWS's own words; "documented": documentation, or a report without AWS's words.
        source: The public page.
        quote: AWS's words, without account ids.
        note: Conclusions from the record beyond its quote.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: str
    each: tuple[str, ...] = ()
    when: str = ""
    instead_of: str = ""
    action: str
    resources: tuple[str, ...]
    named: bool = False
    context: Mapping[str, str] = {}
    via: str = ""
    kind: Literal["refused", "documented"] = "refused"
    source: str
    quote: str = ""
    note: str = ""

    @property
    def calls(self) -> tuple[str, ...]:
        """Every call to which the record applies."""
        return (self.call, *self.each)


def records() -> Iterator[Record]:
    """Yield all records."""
    for path in sorted(FOLDER.glob("*.yaml")):
        yield from map(Record.model_validate, yaml.safe_load(path.read_text()))
