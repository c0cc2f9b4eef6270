"""JSON cases: invalid JSON, ambiguous JSON, and JSON of the wrong type."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.unit.manifest.corpus import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGINNING = '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/x"'
WHOLE = BEGINNING + "}"


def cases() -> Iterator[Case]:
    for name, text, field, reason in TEXTS:
        yield Case(f"JSON: {name}", text.encode(), field, reason)
    for name, values, field, reason in KINDS:
        line = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/x"} | values
        yield Case(f"JSON: {name}", json.dumps(line).encode(), field, reason)


TEXTS = [
    ("a comma at the end", BEGINNING + ",}", "line", "invalid JSON"),
    ("single quotes", "{'region': 'us-east-1'}", "line", "invalid JSON"),
    ("no quotes", "{region: us-east-1}", "line", "invalid JSON"),
    ("a remark", WHOLE + " // remark", "line", "invalid JSON"),
    ("two objects on a line", WHOLE + WHOLE, "line", "invalid JSON"),
    ("CSV after JSON", WHOLE + "\nus-east-1,s3://ragab-ml/x\n", "line", "invalid JSON"),
    ("a cut object", BEGINNING, "line", "invalid JSON"),
    ("a text", WHOLE + '\n"us-east-1"\n', "line", "must be a JSON object"),
    ("a number", WHOLE + "\n7\n", "line", "must be a JSON object"),
    ("null", WHOLE + "\nnull\n", "line", "must be a JSON object"),
    ("an array after an object", WHOLE + "\n[]\n", "line", "must be a JSON object"),
    ("an empty object", "{}", "region", "required"),
    ("a key twice", '{"region": "us-east-1", "region": "us-west-2"}', "line", "'region' occurs twice"),
    ("a key twice, further down", BEGINNING + ', "hyperparameters": {"a": 1, "a": 2}}', "line", "'a' occurs twice"),
    ("a key twice, once escaped", '{"region": "us-east-1", "re\\u0067ion": "x"}', "line", "'region' occurs twice"),
    ("NaN", BEGINNING + ', "instance_count": NaN}', "line", "NaN is not a JSON number"),
    ("Infinity", BEGINNING + ', "instance_count": Infinity}', "line", "Infinity is not a JSON number"),
    ("minus Infinity", BEGINNING + ', "hyperparameters": {"a": -Infinity}}', "line", "-Infinity is not a JSON number"),
    ("1e999", BEGINNING + ', "hyperparameters": {"rate": 1e999}}', "line", "is too large"),
    ("-1e999", BEGINNING + ', "instance_count": -1e999}', "line", "is too large"),
    ("an integer of 5,000 digits", BEGINNING + f', "instance_count": {"9" * 5_000}}}', "line", "is too large"),
    ("0x10", BEGINNING + ', "instance_count": 0x10}', "line", "invalid JSON"),
    ("010", BEGINNING + ', "instance_count": 010}', "line", "invalid JSON"),
    ("+1", BEGINNING + ', "instance_count": +1}', "line", "invalid JSON"),
    ("True", BEGINNING + ', "spot": True}', "line", "invalid JSON"),
    ("100,000 arrays in each other", BEGINNING + ', "hyperparameters": {"a": ' + "[" * 100_000, "line", "nested"),
    ("50,000 objects in each other", '{"a":' * 50_000, "line", "nested"),
    ("a bare control character", BEGINNING + ', "name": "a\tb"}', "line", "invalid JSON"),
    ("half a surrogate pair in a name", BEGINNING + ', "name": "\\ud800"}', "name", "control characters"),
    (
        "half a pair in a hyperparameter",
        BEGINNING + ', "hyperparameters": {"a": "\\udc00"}}',
        "hyperparameters.a",
        "half",
    ),
    ("half a pair in a key", BEGINNING + ', "hyperparameters": {"\\ud800": 1}}', "hyperparameters.'\\ud800'", "half"),
    ("an escaped NUL in a name", BEGINNING + ', "name": "a\\u0000b"}', "name", "control characters"),
    ("an escaped new line in a name", BEGINNING + ', "name": "a\\nforged line"}', "name", "control characters"),
    ("an escaped escape in a name", BEGINNING + ', "name": "\\u001b[2J"}', "name", "control characters"),
    ("an escaped new line in a URI", '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/a\\nb"}', "s3_uri", "control"),
]

KINDS: list[tuple[str, dict[str, Any], str, str]] = [
    ("a Region that is a list", {"region": ["us-east-1"]}, "region", "not a training Region"),
    ("a Region that is a number", {"region": 1}, "region", "not a training Region"),
    ("a Region that is true", {"region": True}, "region", "not a training Region"),
    ("a Region that is an object", {"region": {}}, "region", "not a training Region"),
    ("a URI that is a list", {"s3_uri": ["s3://ragab-ml/x"]}, "s3_uri", "must be text"),
    ("a URI that is null", {"s3_uri": None}, "s3_uri", "s3_uri or inputs is required"),
    ("hyperparameters that are a list", {"hyperparameters": [1]}, "hyperparameters", "must be an object"),
    ("hyperparameters that are false", {"hyperparameters": False}, "hyperparameters", "must be an object"),
    ("hyperparameters that are text", {"hyperparameters": "a=1"}, "hyperparameters", "must be an object"),
    (
        "a hyperparameter that is a list",
        {"hyperparameters": {"a": [1, 2]}},
        "hyperparameters.a",
        "must be text, a number or a boolean",
    ),
    (
        "a hyperparameter that is an object",
        {"hyperparameters": {"a": {}}},
        "hyperparameters.a",
        "must be text, a number or a boolean",
    ),
    (
        "a hyperparameter that is a list with null",
        {"hyperparameters": {"a": [None]}},
        "hyperparameters.a",
        "must be text, a number or a boolean",
    ),
    ("inputs that are a text", {"s3_uri": None, "inputs": "s3://ragab-ml/x"}, "inputs", "must be an object"),
    ("inputs that are a list", {"s3_uri": None, "inputs": ["s3://ragab-ml/x"]}, "inputs", "must be an object"),
    ("no inputs", {"s3_uri": None, "inputs": {}}, "s3_uri", "s3_uri or inputs is required"),
    ("environment that is a list", {"environment": ["A=1"]}, "environment", "must be an object"),
    ("tags as AWS writes them", {"tags": [{"Key": "a", "Value": "b"}]}, "tags", "must be an object"),
    ("replicas that are a list", {"replicas": ["us-west-2"]}, "replicas", "must be an object"),
    ("metrics that are a number", {"metrics": 7}, "metrics", "at least one metric"),
    ("metrics of numbers", {"metrics": [7]}, "metrics", "not a valid metric name"),
    ("a name that is a number", {"name": 7}, "name", "must be text"),
    ("an unknown field", {"epochs": 3}, "field", "unknown field"),
    ("a column's name", {"hp.epochs": 3}, "field", "unknown field"),
    ("a field in capitals", {"Name": "x"}, "field", "unknown field"),
    ("a field of another service", {"__class__": "x"}, "field", "unknown field"),
    ("a role", {"role": "arn:aws:iam::123456789012:role/admin"}, "field", "the deployment sets this"),
    ("a network", {"vpc_config": {"Subnets": []}}, "field", "the deployment sets this"),
    ("a key of a volume", {"volume_kms_key": "k"}, "field", "the deployment sets this"),
    ("500 unknown fields", {f"field{n}": n for n in range(500)}, "field", "unknown field"),
]
