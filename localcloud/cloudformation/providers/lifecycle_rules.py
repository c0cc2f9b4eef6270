"""Lifecycle rules of a bucket: converts CloudFormation's form to the API's."""

from typing import Any


def lifecycle_rules(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert CloudFormation's rules to the rules of PutBucketLifecycleConfiguration.

    Args:
        rules: "AWS::S3::Bucket Rule" in CloudFormation's reference.

    Returns:
        "LifecycleRule" of S3's service model.
    """
    return [_rule(rule) for rule in rules]


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {"Status": rule["Status"], "Filter": {"Prefix": rule.get("Prefix", "")}}
    if "Id" in rule:
        converted["ID"] = rule["Id"]
    expiration = {
        key: value
        for key, value in (
            ("Days", _number(rule.get("ExpirationInDays"))),
            ("ExpiredObjectDeleteMarker", _boolean(rule.get("ExpiredObjectDeleteMarker"))),
        )
        if value is not None
    }
    if expiration:
        converted["Expiration"] = expiration
    if "NoncurrentVersionExpirationInDays" in rule:
        converted["NoncurrentVersionExpiration"] = {"NoncurrentDays": int(rule["NoncurrentVersionExpirationInDays"])}
    for key in ("NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"):
        if key in rule:
            converted[key] = {name: int(value) for name, value in rule[key].items()}
    transitions = [
        {"StorageClass": item["StorageClass"], "Days": int(item["TransitionInDays"])}
        for item in rule.get("Transitions", [])
        if "TransitionInDays" in item
    ]
    return converted | ({"Transitions": transitions} if transitions else {})


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _boolean(value: Any) -> bool | None:
    return None if value is None else str(value).lower() == "true"
