"""Service models: the orchestrator image's reduced copies of botocore's models match them for a child's calls."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.loaders import Loader

from batch_job import service_models

REGIONS = ("us-east-1", "eu-central-1", "cn-north-1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("models")
    service_models.write(written)
    return written


@cache
def loader(folders: tuple[Path, ...]) -> Loader:
    return Loader(extra_search_paths=[str(folder) for folder in folders])


def a_client(service: str, region: str, *folders: Path) -> Any:
    session = botocore.session.Session()
    session.register_component("data_loader", loader(folders))
    session.set_credentials("x", "x")
    return session.create_client(service, region_name=region)


@pytest.mark.parametrize("service", service_models.OPERATIONS)
@pytest.mark.parametrize("region", REGIONS)
def test_a_service_has_the_same_endpoint_and_signature(folder: Path, service: str, region: str) -> None:
    small, whole = a_client(service, region, folder), a_client(service, region)
    assert small.meta.endpoint_url == whole.meta.endpoint_url
    assert small.meta.config.signature_version == whole.meta.config.signature_version
    assert small.meta.service_model.signing_name == whole.meta.service_model.signing_name


@pytest.mark.parametrize("service", service_models.OPERATIONS)
def test_a_service_keeps_the_operations_that_a_child_calls(folder: Path, service: str) -> None:
    kept = a_client(service, "us-east-1", folder).meta.service_model.operation_names
    assert sorted(kept) == sorted(service_models.OPERATIONS[service])


# Loads all modules that a child can load, and prints the files of those that call AWS in a child.
_LOADED = """
import importlib, pkgutil, sys
import traingrid.aws, traingrid.backends, traingrid.child, traingrid.kubernetes

packages = (traingrid.aws, traingrid.backends, traingrid.child, traingrid.kubernetes)
for package in packages[1:]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
prefixes = tuple(f"{package.__name__}." for package in packages)
print(*(module.__file__ for name, module in list(sys.modules.items()) if name.startswith(prefixes)))
"""
OF_PATTERNS = "search"
"""An operation of SageMaker, and a method of regular expressions, for which the modules use it."""


def called_names() -> set[str]:
    """Return the names of attributes and texts in the modules of a child: methods of clients, and paginators."""
    loaded = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    nodes = [node for file in loaded.stdout.split() for node in ast.walk(ast.parse(Path(file).read_text()))]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return (attributes | texts) - {OF_PATTERNS}


def test_no_operation_is_missing_that_a_module_of_a_child_calls() -> None:
    names, whole, kept = called_names(), set(), set()
    for service, operations in service_models.OPERATIONS.items():
        whole |= {xform_name(name) for name in Loader().load_service_model(service, "service-2")["operations"]}
        kept |= {xform_name(name) for name in operations}
    assert names & whole == kept


def test_tags_are_listed_page_by_page(folder: Path) -> None:
    assert a_client("sagemaker", "us-east-1", folder).can_paginate("list_tags")


def test_the_endpoints_are_those_of_the_services_that_a_child_calls(folder: Path) -> None:
    written = json.loads((folder / "endpoints.json").read_text())["partitions"]
    whole = Loader().load_data("endpoints")["partitions"]
    assert [part["regions"] for part in written] == [part["regions"] for part in whole]
    assert {name for part in written for name in part["services"]} <= set(service_models.OPERATIONS)
    assert written[0]["services"]["s3"] == whole[0]["services"]["s3"]


def test_only_the_services_that_a_child_calls_are_kept(tmp_path: Path) -> None:
    kept = ["endpoints.json", "s3/2006-03-01/paginators-1.json", "sagemaker/2017-07-24/service-2.json.gz"]
    for name in (*kept, "s3/2006-03-01/examples-1.json", "ec2/2016-11-15/service-2.json.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    service_models.keep_only(tmp_path)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")) == kept


class CapturedError(Exception):
    """Captures a request before it is sent."""


def sent(client: Any, operation: str, arguments: dict[str, Any]) -> tuple[str, str, bytes]:
    """Return method, URL and body of the request that botocore would send."""

    def capture(request: Any, **_: Any) -> None:
        raise CapturedError(request.method, request.url, request.body)

    client.meta.events.register("before-send", capture)
    with pytest.raises(CapturedError) as captured:
        getattr(client, operation)(**arguments)
    method, url, body = captured.value.args
    return method, url, body


@pytest.mark.parametrize(
    ("service", "operation", "arguments"),
    [
        ("s3", "get_object", {"Bucket": "a-bucket", "Key": "a key", "Range": "bytes=0-7"}),
        ("dynamodb", "get_item", {"TableName": "ledger", "Key": {"submission": {"S": "x"}}, "ConsistentRead": True}),
        ("logs", "get_log_events", {"logGroupName": "a", "logStreamName": "b"}),
        ("sagemaker", "describe_training_job", {"TrainingJobName": "a"}),
        ("sagemaker", "stop_training_job", {"TrainingJobName": "a"}),
        ("sagemaker", "list_tags", {"ResourceArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/a"}),
    ],
)
@pytest.mark.parametrize("region", REGIONS)
def test_a_call_sends_the_same_request(
    folder: Path, region: str, service: str, operation: str, arguments: dict[str, Any]
) -> None:
    small, whole = a_client(service, region, folder), a_client(service, region)
    assert sent(small, operation, arguments) == sent(whole, operation, arguments)


def described(shape: Any, inside: tuple[str, ...] = ()) -> Any:
    """Return the parts of a shape that botocore's serialiser, validator and parser use."""
    if shape is None or shape.name in inside:
        return shape and shape.name
    inside = (*inside, shape.name)
    parts = {**getattr(shape, "members", {})}
    parts |= {part: getattr(shape, part) for part in ("member", "key", "value") if hasattr(shape, part)}
    facts = (shape.type_name, shape.serialization, shape.metadata)
    return (*facts, {name: described(part, inside) for name, part in parts.items()})


@pytest.mark.parametrize(
    ("service", "operation"),
    [(service, operation) for service, operations in service_models.OPERATIONS.items() for operation in operations],
)
def test_requests_and_replies_have_the_same_shapes(folder: Path, service: str, operation: str) -> None:
    small, whole = (
        a_client(service, "us-east-1", *folders).meta.service_model.operation_model(operation)
        for folders in ((folder,), ())
    )
    assert described(small.input_shape) == described(whole.input_shape)
    assert described(small.output_shape) == described(whole.output_shape)
    assert [shape.name for shape in small.error_shapes] == [shape.name for shape in whole.error_shapes]
