"""Dataset rules: the `on_dataset` section of grid.yaml, which starts training when a dataset version is registered."""

import json
import re
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from traingrid.grid.field_types import RegionName, Text, broken_rule
from traingrid.grid.part import GridPart

MAX_RULES = 20
"""Maximum number of rules: each may start a training job for every dataset version."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_FIELDS = ("dataset", "version", "campaign", "format", "region", "uri", "bytes", "objects")
_ATTRIBUTE = "attributes."

RuleName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40, strict=True)]


def _line(line: dict[str, Any]) -> dict[str, Any]:
    """Reject a template that is not JSON, or has an unknown placeholder.

    The fields of a line are checked when the manifest is generated: `traingrid.manifest` knows them, not the grid.
    """
    try:
        text = json.dumps(line, allow_nan=False)
    except (TypeError, ValueError):
        raise broken_rule("a line has only text, numbers, true, false, lists and mappings") from None
    if json.loads(text) != line:
        raise broken_rule("the names of a line's fields and entries are text; quote them")
    for name in placeholders(line):
        if name not in _FIELDS and not (name.startswith(_ATTRIBUTE) and len(name) > len(_ATTRIBUTE)):
            valid_names = ", ".join(f"{{{field}}}" for field in (*_FIELDS, f"{_ATTRIBUTE}NAME"))
            raise broken_rule(f"{{{name}}} is no placeholder; the placeholders are {valid_names}")
    return line


def placeholders(value: Any) -> list[str]:
    """Return the names of the placeholders in the texts of a template, such as `dataset` for "{dataset}"."""
    if isinstance(value, str):
        return _PLACEHOLDER.findall(value)
    if isinstance(value, dict):
        return [name for entry in value.items() for part in entry for name in placeholders(part)]
    return [name for part in value for name in placeholders(part)] if isinstance(value, list) else []


def filled(value: Any, facts: dict[str, str]) -> Any:
    """Return a template with the values of its placeholders.

    Args:
        facts: The values by placeholder.

    Raises:
        KeyError: A placeholder has no value, which only happens for attributes.
    """
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: facts[match[1]], value)
    if isinstance(value, dict):
        return {filled(name, facts): filled(part, facts) for name, part in value.items()}
    return [filled(part, facts) for part in value] if isinstance(value, list) else value


class Match(GridPart):
    """Conditions on a dataset version; patterns have `*` and `?` as in a shell. A missing condition always holds."""

    dataset: Text = Field(default="*", examples=["oslo-*"])
    """Pattern of the dataset's name."""
    campaign: Text = Field(default="*", examples=["oslo"])
    """Pattern of its campaign; a dataset without a campaign matches `*` only."""
    format: Text = Field(default="*", examples=["tfrecord"])
    """Pattern of its format."""
    regions: tuple[RegionName, ...] = Field(default=(), examples=[["eu-north-1"]])
    """Regions of the replica that starts the training; by default every Region."""

    def holds(self, *, dataset: str, campaign: str, format_: str, region: str) -> bool:
        """Return True if a dataset version and the Region of its new replica meet all conditions."""
        pairs = ((dataset, self.dataset), (campaign, self.campaign), (format_, self.format))
        return all(fnmatchcase(value, pattern) for value, pattern in pairs) and region in (self.regions or (region,))


class DatasetRule(GridPart):
    """A rule: for a dataset version that matches, a manifest with one line is generated, once."""

    name: RuleName = Field(examples=["night"])
    """Name of the rule, which is part of the manifest's key; a rule that was renamed is a new rule."""
    match: Match = Field(default=Match(), examples=[{"campaign": "oslo"}])
    """Conditions on the dataset version."""
    line: Annotated[dict[str, Any], AfterValidator(_line)] = Field(
        default={}, examples=[{"instance_count": 2, "hyperparameters": {"epochs": 90}, "tags": {"set": "{dataset}"}}]
    )
    """The line: fields of a manifest in JSON form with placeholders such as `{dataset}`. By default, `region` and
    `s3_uri` are those of the replica, and `name` is the dataset's."""


def check_rules(rules: tuple[DatasetRule, ...], regions: object) -> tuple[DatasetRule, ...]:
    """Return the rules unless two have one name, or one names a Region that is not in the grid."""
    names = [rule.name for rule in rules]
    for number, rule in enumerate(rules):
        if rule.name in names[:number]:
            raise broken_rule(f"two rules have the name {rule.name}, but their manifests need different keys")
        if isinstance(regions, dict) and (unknown := sorted(set(rule.match.regions) - set(regions))):
            raise broken_rule(f"the rule {rule.name} names {', '.join(unknown)}, which is no training Region")
    return rules
