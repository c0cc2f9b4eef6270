"""Restored moto: the server's replacements of moto end with the server, because moto's mocks share the process."""

import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from moto.core.base_backend import BackendDict

from localcloud.server import local_cloud
from localcloud.server.local_cloud import FEATURES, LocalCloud
from localcloud.settings import Settings

REPLACED = {
    "moto.batch.urls.url_paths",
    "moto.core.responses.BaseResponse.get_current_account",
    "moto.events.models.Rule.send_to_targets",
    "moto.iam.models.SERVICE_NAME_CONVERSION",
    "moto.s3.models.s3_backends",
    "moto.s3.responses.S3Response.copy_object",
    "moto.sns.models.SNSBackend.publish",
}
"""Some of them: methods, backends, paths and tables."""


@pytest.fixture
def original() -> dict[str, object]:
    """moto as it is before a server starts, with all modules that the server's features load."""
    for name in FEATURES:
        importlib.import_module(name)
    return state_of_moto()


def state_of_moto() -> dict[str, object]:
    """Return the attributes of moto's modules and classes that have no own state, and the class of each backend."""
    modules = {name: module for name, module in sys.modules.items() if name.startswith("moto.")}
    owners: dict[str, object] = dict(modules)
    for name, module in modules.items():
        classes = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == name]
        owners |= {f"{name}.{value.__name__}": value for value in classes}
    return {f"{name}.{key}": _stateless(value) for name, owner in owners.items() for key, value in vars(owner).items()}


def _stateless(value: object) -> object:
    if isinstance(value, BackendDict):
        return value.backend
    if isinstance(value, dict):
        return dict(value)
    return value if callable(value) or isinstance(value, str | bool | staticmethod | classmethod) else None


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    return {name for name in before if before[name] != after.get(name)}


def test_a_server_that_has_stopped_leaves_moto_as_it_was(tmp_path: Path, original: Mapping[str, object]) -> None:
    with LocalCloud(Settings(data_dir=tmp_path)):
        assert differences(original, state_of_moto()) > REPLACED
    assert differences(original, state_of_moto()) == set()


def test_a_server_that_cannot_start_leaves_moto_as_it_was(
    tmp_path: Path, original: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_cloud, "FEATURES", (*FEATURES, "localcloud.no_such_feature"))
    with pytest.raises(ModuleNotFoundError):
        LocalCloud(Settings(data_dir=tmp_path)).start()
    assert differences(original, state_of_moto()) == set()
