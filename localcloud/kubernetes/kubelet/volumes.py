"""Volumes: the folders of a pod's volumes on this machine.

A process cannot have files at the paths of a container, so it gets the paths in variables: `SAGEMAKER_BASE_DIR` for
/opt/ml, as on SageMaker's hosts, and `TRAINGRID_POD_FILES` for a volume of the downward API. Values of variables that
are paths in other volumes are replaced.

A container sees the mounts that it declares (https://kubernetes.io/docs/concepts/storage/volumes/#how-to-use-a-volume).
/opt/ml is the folder of the volume that is mounted there, which hides the files of the image, or a folder of the
container with these files. Mounts below it are links, which exist while a container with these mounts runs. A link in a
volume is in this volume, so containers that run at the same time see it, too. Without a link, a container that ran
before has left an empty folder, as the runtime does.

The order of mounts inside other mounts does not matter, because the runtime sorts mounts by their depth (WithMounts in
internal/cri/opts/spec_linux_opts.go of https://github.com/containerd/containerd).
"""

from __future__ import annotations

import base64
import re
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.resources import CONFIG_MAP, SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from localcloud.ecr.process_images import ProcessImage
    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.store import Object

OPT_ML = "/opt/ml"
_OF_MAP = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


@dataclass(frozen=True, kw_only=True)
class MountError(Exception):
    """A volume cannot be mounted yet."""

    volume: str
    message: str


class Volumes:
    """The volumes of one pod.

    Args:
        claim: Returns the folder of a claim for its name; raises MountError if it cannot be mounted.
    """

    def __init__(self, client: Client, pod: Object, folder: Path, claim: Callable[[str, str], Path]) -> None:
        self._client, self._pod, self._folder, self._claim = client, pod, folder, claim
        self._folders: dict[str, Path] = {}
        self._downward: set[str] = set()
        self._links: dict[Path, set[str]] = {}
        self._lock = threading.Lock()

    def mount(self) -> None:
        """Create the folders and files of all volumes.

        Raises:
            MountError: The source of a volume does not exist.
        """
        for volume in self._pod["spec"].get("volumes") or []:
            self._folders[volume["name"]] = self._mount(volume)

    def environment(self, container: Mapping[str, Any], image: ProcessImage) -> dict[str, str]:
        """Return the variables with the paths of a container's volumes."""
        environment, mounts = {}, container.get("volumeMounts") or []
        if image.opt_ml or any(_path(mount) == OPT_ML or _is_below(_path(mount), OPT_ML) for mount in mounts):
            environment["SAGEMAKER_BASE_DIR"] = str(self._opt_ml(container))
        for mount in mounts:
            if mount["name"] in self._downward:
                environment["TRAINGRID_POD_FILES"] = str(self._folder_of(mount))
        return environment

    def translated(self, container: Mapping[str, Any], value: str) -> str:
        """Return a variable's value with the path of a file outside /opt/ml on this machine."""
        for mount in container.get("volumeMounts") or []:
            path = _path(mount)
            if not path.startswith((OPT_ML, "/dev/")) and (value == path or value.startswith(f"{path}/")):
                return str(self._folder_of(mount)) + value.removeprefix(path)
        return value

    def link(self, container: Mapping[str, Any], image: ProcessImage) -> None:
        """Make the image's files and the container's volumes below /opt/ml visible, before it starts."""
        if self._opt_ml(container) == self._image_folder(container):
            shutil.rmtree(self._image_folder(container), ignore_errors=True)
            image.write_opt_ml(self._image_folder(container))
        for place, folder in self._links_below(container):
            with self._lock:
                users = self._links.setdefault(place, set())
                if not users:
                    if folder.is_relative_to(self._folder):  # the kubelet creates the folder of a `subPath`
                        folder.mkdir(parents=True, exist_ok=True)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    if place.is_dir():  # a mount covers the content of its folder
                        place.rename(self._covered_folder(place))
                    place.symlink_to(folder, target_is_directory=True)
                users.add(container["name"])

    def unlink(self, container: Mapping[str, Any]) -> None:
        """Hide a container's volumes below /opt/ml, after it has ended."""
        for place, _ in self._links_below(container):
            with self._lock:
                users = self._links.get(place, set())
                if users == {container["name"]}:
                    place.unlink(missing_ok=True)
                    covered = self._covered_folder(place)
                    covered.rename(place) if covered.exists() else place.mkdir()
                users.discard(container["name"])

    def _links_below(self, container: Mapping[str, Any]) -> Iterator[tuple[Path, Path]]:
        """Yield the link and the folder of each volume below /opt/ml, the outer ones first."""
        places = {OPT_ML: self._opt_ml(container)}
        for mount in sorted(container.get("volumeMounts") or [], key=_path):
            path = _path(mount)
            if _is_below(path, OPT_ML):
                outer = max((place for place in places if _is_below(path, place)), key=len)
                yield places[outer] / path.removeprefix(f"{outer}/"), self._folder_of(mount)
                places[path] = self._folder_of(mount)

    def _opt_ml(self, container: Mapping[str, Any]) -> Path:
        """Return the folder that replaces a container's /opt/ml."""
        mounts = container.get("volumeMounts") or []
        return next(
            (self._folder_of(mount) for mount in mounts if _path(mount) == OPT_ML), self._image_folder(container)
        )

    def _image_folder(self, container: Mapping[str, Any]) -> Path:
        """Return the folder of the image's files below /opt/ml."""
        return self._folder / f".opt-ml-of-{container['name']}"

    def _covered_folder(self, place: Path) -> Path:
        """Return where the content of a folder is while a link replaces it."""
        return self._folder / f".covered-{list(self._links).index(place)}"

    def _folder_of(self, mount: Mapping[str, Any]) -> Path:
        folder = self._folders[str(mount["name"])]
        return folder / str(mount.get("subPath") or "")

    def _mount(self, volume: Mapping[str, Any]) -> Path:
        name = volume["name"]
        if claim := volume.get("persistentVolumeClaim"):
            return self._claim(str(name), str(claim["claimName"]))
        folder: Path = self._folder / str(name)
        folder.mkdir(parents=True, exist_ok=True)
        if (source := volume.get("downwardAPI")) is not None:
            self._downward.add(name)
            for item in source.get("items") or []:
                _write(folder, item["path"], field(self._pod, item["fieldRef"]["fieldPath"]).encode())
        elif (source := volume.get("configMap")) is not None:
            self._files(name, folder, CONFIG_MAP, source.get("name", ""), source)
        elif (source := volume.get("secret")) is not None:
            self._files(name, folder, SECRET, source.get("secretName", ""), source)
        elif "emptyDir" not in volume:
            kinds = ", ".join(sorted(set(volume) - {"name"}))
            raise MountError(volume=name, message=f"localcloud has no volumes of this kind: {kinds}")
        return folder

    def _files(self, volume: str, folder: Path, resource: Any, name: str, source: Mapping[str, Any]) -> None:
        source_object = self._client.find(resource, self._pod["metadata"]["namespace"], name)
        if source_object is None:
            if source.get("optional"):
                return
            kind = resource.kind.lower()
            message = f'MountVolume.SetUp failed for volume "{volume}" : {kind} "{name}" not found'
            raise MountError(volume=volume, message=message)
        data = {key: str(value).encode() for key, value in (source_object.get("data") or {}).items()}
        if resource is SECRET:
            data = {key: base64.b64decode(value) for key, value in data.items()}
        for item in source.get("items") or [{"key": key, "path": key} for key in data]:
            _write(folder, item["path"], data.get(item["key"], b""))


def field(pod: Object, path: str) -> str:
    """Return a field of a pod (https://kubernetes.io/docs/concepts/workloads/pods/downward-api/)."""
    if match := _OF_MAP.fullmatch(path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    value: Any = pod
    for name in path.split("."):
        value = value.get(name, "") if isinstance(value, dict) else ""
    if isinstance(value, dict):
        return "\n".join(f'{name}="{text}"' for name, text in sorted(value.items()))
    return str(value)


def _path(mount: Mapping[str, Any]) -> str:
    return str(mount["mountPath"]).rstrip("/")


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _write(folder: Path, path: str, content: bytes) -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
