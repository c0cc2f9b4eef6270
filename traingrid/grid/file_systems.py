"""File systems: Amazon EFS and FSx for Lustre file systems of a training Region, which channels can mount."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import StringConstraints

from traingrid.grid.field_types import broken_rule

FileSystemType = Literal["EFS", "FSxLustre"]
"""The types that a training job can mount, in SageMaker's words
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_FileSystemDataSource.html)."""

FileSystemId = Annotated[str, StringConstraints(pattern=r"^fs-[0-9a-f]{8,18}$", strict=True)]
"""The shape FileSystemId of SageMaker's service model: `fs-` and hexadecimal digits, 21 characters at most."""

FileSystems = dict[FileSystemId, FileSystemType]


def check_file_systems(listed: Mapping[str, Iterable[str]]) -> None:
    """Raise an error for a file system that is listed for two Regions.

    Args:
        listed: The ids of the file systems of each Region.
    """
    owners: dict[str, str] = {}
    for region, file_systems in listed.items():
        for file_system in file_systems:
            if owners.setdefault(file_system, region) != region:
                rule = f"{file_system} is also under {owners[file_system]}, but a file system is in one Region"
                raise broken_rule(rule, region)
