"""JSON Lines that are no JSON, JSON that means two things, and JSON of the wrong kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.domain.corpus import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGINNING = '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/x"'
WHOLE = BEGINNING + "}"


def cases() -> Iterator[Case]:
    for name, text, field, says in TEXTS:
        yield Case(f"JSON: {name}", text.encode(), field, says)
    for name, values, field, says in KINDS:
        line = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/x"} | values
        yield Case(f"JSON: {name}", json.dumps(line).encode(), field, says)


TEXTS = [
    ("a comma at the end", BEGINNING + ",}", "line", "not JSON"),
    ("single quotes", "{'region': 'us-east-1'}", "line", "not JSON"),
    ("no quotes", "{region: us-east-1}", "line", "not JSON"),
    ("a remark", WHOLE + " // remark", "line", "not JSON"),
    ("two objects on a line", WHOLE + WHOLE, "line", "not JSON"),
    ("CSV after JSON", WHOLE + "\nus-east-1,s3://ragab-ml/x\n", "line", "not JSON"),
    ("a cut object", BEGINNING, "line", "not JSON"),
    ("a text", WHOLE + '\n"us-east-1"\n', "line", "no object"),
    ("a number", WHOLE + "\n7\n", "line", "no object"),
    ("null", WHOLE + "\nnull\n", "line", "no object"),
    ("an array after an object", WHOLE + "\n[]\n", "line", "no object"),
    ("an empty object", "{}", "region", "missing"),
    ("a key twice", '{"region": "us-east-1", "region": "us-west-2"}', "line", "'region' stands there twice"),
    ("a key twice, further down", BEGINNING + ', "hyperparameters": {"a": 1, "a": 2}}', "line", "'a' stands there"),
    ("a key twice, once escaped", '{"region": "us-east-1", "re\\u0067ion": "x"}', "line", "'region' stands there"),
    ("NaN", BEGINNING + ', "instance_count": NaN}', "line", "NaN is no number"),
    ("Infinity", BEGINNING + ', "instance_count": Infinity}', "line", "Infinity is no number"),
    ("minus Infinity", BEGINNING + ', "hyperparameters": {"a": -Infinity}}', "line", "-Infinity is no number"),
    ("1e999", BEGINNING + ', "hyperparameters": {"rate": 1e999}}', "line", "too large a number"),
    ("-1e999", BEGINNING + ', "instance_count": -1e999}', "line", "too large a number"),
    ("an integer of 5,000 digits", BEGINNING + f', "instance_count": {"9" * 5_000}}}', "line", "too large a number"),
    ("0x10", BEGINNING + ', "instance_count": 0x10}', "line", "not JSON"),
    ("010", BEGINNING + ', "instance_count": 010}', "line", "not JSON"),
    ("+1", BEGINNING + ', "instance_count": +1}', "line", "not JSON"),
    ("True", BEGINNING + ', "spot": True}', "line", "not JSON"),
    ("100,000 arrays in each other", BEGINNING + ', "hyperparameters": {"a": ' + "[" * 100_000, "line", "nested"),
    ("50,000 objects in each other", '{"a":' * 50_000, "line", "nested"),
    ("a bare control character", BEGINNING + ', "name": "a\tb"}', "line", "not JSON"),
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
    ("a URI that is a list", {"s3_uri": ["s3://ragab-ml/x"]}, "s3_uri", "no text"),
    ("a URI that is null", {"s3_uri": None}, "s3_uri", "does not say where"),
    ("hyperparameters that are a list", {"hyperparameters": [1]}, "hyperparameters", "no object"),
    ("hyperparameters that are false", {"hyperparameters": False}, "hyperparameters", "no object"),
    ("hyperparameters that are text", {"hyperparameters": "a=1"}, "hyperparameters", "no object"),
    ("a hyperparameter that is a list", {"hyperparameters": {"a": [1, 2]}}, "hyperparameters.a", "neither text"),
    ("a hyperparameter that is an object", {"hyperparameters": {"a": {}}}, "hyperparameters.a", "neither text"),
    ("a hyperparameter that is null", {"hyperparameters": {"a": None}}, "hyperparameters.a", "neither text"),
    ("inputs that are a text", {"s3_uri": None, "inputs": "s3://ragab-ml/x"}, "inputs", "no object"),
    ("inputs that are a list", {"s3_uri": None, "inputs": ["s3://ragab-ml/x"]}, "inputs", "no object"),
    ("no inputs", {"s3_uri": None, "inputs": {}}, "s3_uri", "does not say where"),
    ("environment that is a list", {"environment": ["A=1"]}, "environment", "no object"),
    ("tags as AWS writes them", {"tags": [{"Key": "a", "Value": "b"}]}, "tags", "no object"),
    ("replicas that are a list", {"replicas": ["us-west-2"]}, "replicas", "no object"),
    ("metrics that are a number", {"metrics": 7}, "metrics", "no metric"),
    ("metrics of numbers", {"metrics": [7]}, "metrics", "no name of a metric"),
    ("a name that is a number", {"name": 7}, "name", "no text"),
    ("an unknown field", {"epochs": 3}, "field", "no such field"),
    ("a column's name", {"hp.epochs": 3}, "field", "no such field"),
    ("a field in capitals", {"Name": "x"}, "field", "no such field"),
    ("a field of another service", {"__class__": "x"}, "field", "no such field"),
    ("a role", {"role": "arn:aws:iam::123456789012:role/admin"}, "field", "decided by the deployment"),
    ("a network", {"vpc_config": {"Subnets": []}}, "field", "decided by the deployment"),
    ("a key of a volume", {"volume_kms_key": "k"}, "field", "decided by the deployment"),
    ("500 unknown fields", {f"field{n}": n for n in range(500)}, "field", "no such field"),
]
