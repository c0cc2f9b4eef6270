"""File systems of training jobs: EFS and FSx for Lustre, which are folders on this machine.

moto 5.2.5 has both services' control planes. This module adds the network of FSx for Lustre, which moto lacks, and
mounts a file system in a training job: the channel's folder is a symbolic link to the file system's folder
`<data_dir>/file-systems/<account>/<region>/<id>`, to which a user copies data. Mounts are not read-only, and security
groups do not restrict them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from moto.ec2.exceptions import InvalidSubnetIdError
from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends
from moto.fsx.exceptions import FileSystemNotFound
from moto.fsx.models import FileSystem, FSxBackend, fsx_backends

from localcloud.sagemaker.transfer import TransferError

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_create, _describe, _to_dict = FSxBackend.create_file_system, FSxBackend.describe_file_systems, FileSystem.to_dict

_SCRATCH = "SCRATCH_1"
_SCRATCH_NAME = "fsx"
"""The mount name of every file system of this type
(https://docs.aws.amazon.com/fsx/latest/APIReference/API_LustreFileSystemConfiguration.html)."""


@dataclass(frozen=True, kw_only=True)
class Mounted:
    """A FileSystemDataSource."""

    name: str
    kind: str
    path: str
    access: str

    @classmethod
    def of(cls, source: Mapping[str, str]) -> "Mounted":
        """Return the source of a request."""
        return cls(
            name=source["FileSystemId"],
            kind=source["FileSystemType"],
            path=source["DirectoryPath"],
            access=source["FileSystemAccessMode"],
        )


def install(cloud: "LocalCloud") -> None:
    """Give FSx for Lustre network interfaces, a VPC and a mount name, and refuse unknown ids, as AWS does."""

    def create_file_system(self: FSxBackend, *arguments: Any, **options: Any) -> FileSystem:
        file_system = _create(self, *arguments, **options)
        _join_network(file_system, self)
        return file_system

    def describe_file_systems(self: FSxBackend, file_system_ids: list[str] | None = None, **page: Any) -> Any:
        for name in file_system_ids or []:
            if name not in self.file_systems:
                raise FileSystemNotFound(name)
        return _describe(self, file_system_ids=file_system_ids or [], **page)

    cloud.replace(FSxBackend, create_file_system=create_file_system, describe_file_systems=describe_file_systems)
    cloud.replace(FileSystem, to_dict=_described)


def _join_network(file_system: FileSystem, backend: FSxBackend) -> None:
    ec2 = ec2_backends[backend.account_id][backend.region_name]
    groups = file_system.security_group_ids or None  # EC2 takes the default group of the VPC
    subnets = [ec2.get_subnet(subnet) for subnet in file_system.subnet_ids]
    file_system.network = {
        "VpcId": subnets[0].vpc_id,
        "NetworkInterfaceIds": [
            ec2.create_network_interface(subnet, subnet.get_available_subnet_ip(file_system), group_ids=groups).id
            for subnet in subnets
        ],
    }


def _described(self: FileSystem) -> dict[str, Any]:
    description: dict[str, Any] = _to_dict(self) | {"Lifecycle": "AVAILABLE"} | getattr(self, "network", {})
    if self.file_system_type == "LUSTRE":
        configuration = self.lustre_configuration or {}
        description["LustreConfiguration"] = {**configuration, "MountName": mount_name(self)}
    return description


def mount_name(file_system: FileSystem) -> str:
    """Return the mount name of an FSx for Lustre file system; that of SCRATCH_1, the default type, is fixed."""
    kind = (file_system.lustre_configuration or {}).get("DeploymentType", _SCRATCH)
    return _SCRATCH_NAME if kind == _SCRATCH else file_system.file_system_id.removeprefix("fs-")[:8]


def folder_of(data_dir: Path, account: str, region: str, name: str) -> Path:
    """Return the folder with the content of a file system."""
    return data_dir / "file-systems" / account / region / name


def mount(source: Mounted, request: Mapping[str, Any], place: tuple[Path, str, str], channels: Sequence[Path]) -> None:
    """Mount a file system at a channel's folder on every host.

    AWS's texts of the failures are not public; these state the same facts.

    Args:
        source: The file system and its folder.
        request: The training job's request.
        place: The data directory of the localcloud, the account and the Region.
        channels: The channel's folder on each host.

    Raises:
        TransferError: The file system does not exist, is in another VPC or zone than the job, or lacks the folder.
    """
    data_dir, account, region = place
    locations = _network_locations(source, account, region)
    if locations is None:
        _fail(source, f"no file system of this type exists in {region}")
    host_locations = {
        _location_of_subnet(subnet, account, region) for subnet in (request.get("VpcConfig") or {}).get("Subnets", [])
    }
    if not locations or {location.vpc for location in locations} != {location.vpc for location in host_locations}:
        _fail(source, "it has no network interface in the VPC of the training job")
    is_reachable = host_locations <= locations if source.kind == "EFS" else bool(host_locations & locations)
    if not is_reachable:
        _fail(source, "it has no network interface in the zone of the training job's subnets")
    content = folder_of(data_dir, account, region, source.name) / source.path.strip("/")
    if not content.is_dir():
        _fail(source, f"the directory does not exist; in localcloud it is {content}")
    for channel in channels:
        channel.parent.mkdir(parents=True, exist_ok=True)
        channel.symlink_to(content, target_is_directory=True)


def _fail(source: Mounted, reason: str) -> NoReturn:
    raise TransferError(f"ClientError: Unable to mount {source.kind} file system {source.name}:{source.path}: {reason}")


class _NetworkLocation(NamedTuple):
    vpc: str
    zone: str


def _network_locations(source: Mounted, account: str, region: str) -> set[_NetworkLocation] | None:
    """Return the VPC and zone of each network interface of a file system; None if it does not exist with its type.

    A client of EFS needs a mount target in its own zone
    (https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-mount-cmd-dns-name.html), and a training job on FSx for
    Lustre a subnet in the zone of the file system
    (https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html).
    """
    if source.kind == "EFS":
        efs = efs_backends[account][region].file_systems_by_id.get(source.name)
        if efs is None:
            return None
        return {_NetworkLocation(target.vpc_id, target.availability_zone_name) for target in efs.iter_mount_targets()}
    fsx = fsx_backends[account][region].file_systems.get(source.name)
    if fsx is None or fsx.file_system_type != "LUSTRE":
        return None
    return {_location_of_subnet(subnet, account, region) for subnet in fsx.subnet_ids}


def _location_of_subnet(subnet: str, account: str, region: str) -> _NetworkLocation:
    """Return the VPC and zone of a subnet; both are empty if it does not exist."""
    try:
        subnet_object = ec2_backends[account][region].get_subnet(subnet)
    except InvalidSubnetIdError:
        return _NetworkLocation("", "")
    return _NetworkLocation(str(subnet_object.vpc_id), str(subnet_object.availability_zone))
