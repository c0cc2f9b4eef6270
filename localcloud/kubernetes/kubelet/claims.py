"""Claims: the content of PersistentVolumeClaims, whose volumes are those of AWS's CSI drivers.

Sources: https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md,
https://docs.aws.amazon.com/eks/latest/userguide/fsx-csi.html and
https://docs.aws.amazon.com/eks/latest/userguide/efs-csi.html. Volumes of Mountpoint for S3 are downloaded when the pod
starts; the others are the folders of localcloud/sagemaker/file_systems.py. Only static provisioning is here: a claim
names its volume, which exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from moto.efs.models import efs_backends
from moto.fsx.models import fsx_backends

from localcloud.kubernetes.kubelet.volumes import MountError
from localcloud.kubernetes.resources import CLAIM, VOLUME
from localcloud.sagemaker.file_systems import folder_of
from localcloud.sagemaker.request import S3Uri
from localcloud.sagemaker.transfer import Downloader, TransferError, s3_client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.store import Object

_DRIVER_ACCOUNT = ("kube-system", "s3-csi-driver-sa")
"""The service account of the driver, whose credentials it uses unless the volume has `authenticationSource: pod`."""


@dataclass(frozen=True, kw_only=True)
class Claims:
    """The claims of a cluster.

    Attributes:
        folder: The folder of the pods.
        environment: Returns the AWS variables of a pod for its namespace and service account.
    """

    client: Client
    data_dir: Path
    folder: Path
    region: str
    account: str
    environment: Callable[[str, str], Mapping[str, str]]

    def mount(self, pod: Object, name: str, claim: str) -> Path:
        """Return the folder of a claim.

        Args:
            name: The name of the pod's volume.

        Raises:
            MountError: The claim cannot be mounted yet.
        """
        namespace = pod["metadata"]["namespace"]
        claim_object = self.client.find(CLAIM, namespace, claim)
        if claim_object is None:
            raise MountError(volume=name, message=f'persistentvolumeclaim "{claim}" not found')
        volume = self.client.find(VOLUME, "", claim_object["spec"].get("volumeName") or "")
        if volume is None:
            raise MountError(volume=name, message=f'persistentvolumeclaim "{claim}" is not bound')
        source = volume["spec"].get("csi") or {}
        if source.get("driver") == "s3.csi.aws.com":
            return self._bucket(pod, name, volume)
        if source.get("driver") not in ("fsx.csi.aws.com", "efs.csi.aws.com"):
            reason = f"driver name {source.get('driver', '')} not found in the list of registered CSI drivers"
            _fail(name, volume, reason)
        return self._file_system(name, source)

    def _bucket(self, pod: Object, name: str, volume: Object) -> Path:
        source = volume["spec"]["csi"]
        attributes = source.get("volumeAttributes") or {}
        options = volume["spec"].get("mountOptions") or []
        prefix = next((option.split(maxsplit=1)[1] for option in options if option.startswith("prefix ")), "")
        metadata, account = pod["metadata"], pod["spec"]["serviceAccountName"]
        has_pod_credentials = attributes.get("authenticationSource") == "pod"
        service_account = (metadata["namespace"], account) if has_pod_credentials else _DRIVER_ACCOUNT
        variables = self.environment(*service_account)
        if "AWS_ACCESS_KEY_ID" not in variables:
            _fail(name, volume, "Failed to create S3 client: No signing credentials available")
        folder: Path = self.folder / str(metadata["uid"]) / "claims" / name
        place = S3Uri.parse(f"s3://{attributes.get('bucketName', '')}/{prefix}")
        try:
            Downloader(s3_client(variables), lambda: False).prefix(place, folder)
        except TransferError as error:
            _fail(name, volume, str(error))
        return folder

    def _file_system(self, name: str, source: Mapping[str, Any]) -> Path:
        identifier, _, path = str(source["volumeHandle"]).partition(":")
        if source["driver"] == "fsx.csi.aws.com":
            file_systems: Any = fsx_backends[self.account][self.region].file_systems
        else:
            file_systems = efs_backends[self.account][self.region].file_systems_by_id
        if identifier not in file_systems:
            message = f'MountVolume.SetUp failed for volume "{name}" : file system {identifier} does not exist'
            raise MountError(volume=name, message=message)
        folder = folder_of(self.data_dir, self.account, self.region, identifier) / path.partition(":")[0].strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _fail(name: str, volume: Object, reason: str) -> NoReturn:
    message = f'MountVolume.SetUp failed for volume "{volume["metadata"]["name"]}" : rpc error: {reason}'
    raise MountError(volume=name, message=message)
