"""Generated manifests: the manifest of a rule of `on_dataset` for one replica of a dataset version."""

import json

from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.grid.on_dataset import DatasetRule, filled
from traingrid.ledger.datasets import DatasetItem
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.parse import parse
from traingrid.text import shown


def matching(rules: tuple[DatasetRule, ...], item: DatasetItem, region: str) -> list[str]:
    """Return the names of the rules that match a dataset version and its new replica, and have not run for it."""
    facts = {"dataset": item.dataset, "campaign": item.campaign, "format_": item.format, "region": region}
    return [rule.name for rule in rules if rule.name not in item.rules and rule.match.holds(**facts)]


def manifest_of(rule: DatasetRule, item: DatasetItem, deployment: Deployment) -> bytes:
    """Return the manifest that a rule generates, which the intake would accept.

    Args:
        item: The dataset version; `item.rules` has the Region of the rule's replica.
        deployment: Defines the permitted values of a line.

    Raises:
        UsageError: The rule's line is not valid for this dataset version.
    """
    region = item.rules[rule.name]
    uri = item.replicas[region].uri
    facts = {"dataset": item.dataset, "version": item.version, "campaign": item.campaign, "format": item.format}
    facts |= {"region": region, "uri": uri, "bytes": str(item.bytes), "objects": str(item.objects)}
    facts |= {f"attributes.{name}": _text(value) for name, value in item.attributes.items()}
    defaults = {"region": region, "name": item.dataset}
    if "inputs" not in rule.line:
        defaults["s3_uri"] = uri
    try:
        line = {**defaults, **filled(rule.line, facts)}
    except KeyError as missing:
        requirement = f"the rule {rule.name} of on_dataset requires {missing.args[0]}, which the marker does not have"
        raise UsageError(f"{requirement}.", _NEXT) from None
    manifest = f"# jobs: 1\n{json.dumps(line, sort_keys=True)}\n".encode()
    try:
        parse(manifest, deployment)
    except ManifestError as error:
        wrong = "; ".join(
            f"{field_error.field} {shown(field_error.value)}: {field_error.reason}" for field_error in error.errors[:5]
        )
        raise UsageError(f"the rule {rule.name} of on_dataset generates an invalid line: {wrong}.", _NEXT) from None
    return manifest


_NEXT = "Correct on_dataset in grid.yaml and deploy, and upload the marker again."


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
