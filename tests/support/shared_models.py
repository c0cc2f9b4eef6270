"""Shared models: botocore's models, client classes and endpoint rules, built once per process for all its sessions.

botocore builds the class and the rules again for each client, which takes most of the time of a test with moto
(https://github.com/boto/botocore/issues/3078). moto builds the policies of AWS, of which it has more than a thousand,
again for each account, and at a reset each backend before it removes it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.regions
import botocore.session
import pytest
from botocore.client import ClientCreator
from botocore.endpoint_provider import EndpointProvider
from botocore.hooks import EventAliaser
from botocore.loaders import Loader
from botocore.model import ServiceModel

_loader = cache(botocore.session.create_loader)
_create_class: Any = vars(ClientCreator)["_create_client_class"]
_load_data: Any = vars(Loader)["load_data_with_path"]
_alias: Any = vars(EventAliaser)["_alias_event_name"]
_aliases: dict[str, str] = {}
_classes: dict[int, tuple[ServiceModel, type]] = {}
_providers: dict[int, tuple[Any, EndpointProvider]] = {}


@cache
def _model(loader: Any, service: str, version: str | None) -> ServiceModel:
    return ServiceModel(loader.load_service_model(service, "service-2", api_version=version), service_name=service)


@cache
def _data(name: str) -> Any:
    return _load_data(_loader(None), name)


def _class(creator: ClientCreator, service: str, model: ServiceModel) -> type:
    if id(model) not in _classes:
        _classes[id(model)] = model, _create_class(creator, service, model)
    return _classes[id(model)][1]


def _provider(ruleset_data: Any, partition_data: Any, **options: Any) -> EndpointProvider:
    if id(ruleset_data) not in _providers:
        _providers[id(ruleset_data)] = ruleset_data, EndpointProvider(ruleset_data, partition_data, **options)
    return _providers[id(ruleset_data)][1]


def _aliased(aliaser: EventAliaser, event: str) -> str:
    if event not in _aliases:
        _aliases[event] = _alias(aliaser, event)
    return _aliases[event]


@cache
def _create_s3_class() -> None:
    """Create the class of S3's clients with the methods that only boto3 adds to it, such as `upload_file`."""
    boto3.session.Session("test", "test").client("s3", "us-east-1")


def _share(patch: pytest.MonkeyPatch, loader_of: Callable[[Any], Any]) -> None:
    """Let all clients share models and classes, with the loader of botocore's data that their creator has."""
    patch.setattr(ClientCreator, "_load_service_model", lambda self, *of: _model(loader_of(self), *of))
    patch.setattr(ClientCreator, "_create_client_class", _class)
    patch.setattr(botocore.regions, "EndpointProvider", _provider)
    patch.setattr(EventAliaser, "_alias_event_name", _aliased)
    _create_s3_class()


@contextmanager
def shared_models() -> Iterator[None]:
    """Let all sessions share them, in a process without a localcloud."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", _loader)
        _share(patch, lambda creator: creator._loader)
        yield


@contextmanager
def shared_models_beside_localcloud() -> Iterator[None]:
    """Let the clients of all sessions share them, but not the sessions themselves.

    Clients of S3 change the paths of their model (`remove_bucket_from_url_paths_from_model` in botocore/handlers.py),
    and localcloud learns the operation of a request from the paths of the model of a session.
    """

    def load_data(loader: Loader, name: str) -> Any:
        is_of_endpoints = name in ("endpoints", "partitions") or name.endswith("endpoint-rule-set-1")
        return _data(name) if is_of_endpoints else _load_data(loader, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loader, "load_data_with_path", load_data)
        _share(patch, lambda _: _loader(None))
        _faster_moto(patch)
        yield


@cache
def _create_policies() -> Any:
    from moto.iam.models import IAMBackend  # noqa: PLC0415  # it takes a second

    return IAMBackend._init_aws_policies


@cache
def _policies(account: str, region: str, _are_loaded: bool) -> list[Any]:
    return list(_create_policies()(SimpleNamespace(account_id=account, region_name=region)))


def _copied_policies(backend: Any) -> list[Any]:
    """Return the policies of AWS in an account, with copies of everything that the account may change."""
    from moto.settings import load_iam_aws_managed_policies  # noqa: PLC0415  # it takes a second

    policies = [*map(copy, _policies(backend.account_id, backend.region_name, load_iam_aws_managed_policies()))]
    for policy in policies:
        policy.versions, policy.tags = [*map(copy, policy.versions)], dict(policy.tags)
    return policies


def _remove_backends() -> None:
    """Do as moto's `BackendDict.reset`, without building each backend again before it is removed."""
    from moto.core.base_backend import BackendDict, BaseBackend, backend_lock  # noqa: PLC0415  # it takes a second

    with backend_lock:
        for service in BackendDict._instances:
            for backend in [backend for regions in service.values() for backend in regions.values()]:
                if type(backend).reset is not BaseBackend.reset:  # it has files or processes
                    backend.reset()
            service.clear()
        BackendDict._instances.clear()


def _faster_moto(patch: pytest.MonkeyPatch) -> None:
    """Let accounts share the policies of AWS, and remove backends at once."""
    from moto.core.base_backend import BackendDict  # noqa: PLC0415  # it takes a second
    from moto.iam.models import IAMBackend  # noqa: PLC0415  # it takes a second

    _create_policies()  # before it is replaced
    patch.setattr(IAMBackend, "_init_aws_policies", _copied_policies)
    patch.setattr(BackendDict, "reset", _remove_backends)


@pytest.fixture(scope="module", autouse=True)
def service_models_beside_localcloud() -> Iterator[None]:
    """Share botocore's models between the tests of a file."""
    with shared_models_beside_localcloud():
        yield
