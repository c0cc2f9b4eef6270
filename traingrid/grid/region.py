"""Training Regions: an entry of the `regions` section of grid.yaml."""

import re
from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from traingrid import names
from traingrid.grid.eks import EksCluster
from traingrid.grid.encryption import KeyArn
from traingrid.grid.field_types import (
    AccountId,
    BucketName,
    SecurityGroupId,
    SubnetId,
    TrainingPlanName,
    broken_rule,
)
from traingrid.grid.file_systems import FileSystems
from traingrid.grid.part import GridPart
from traingrid.grid.queues import ServiceQueue
from traingrid.grid.residency import Areas
from traingrid.grid.training import MAX_SECURITY_GROUPS, MAX_SUBNETS
from traingrid.job.backend_traits import DEFAULT_BACKEND, BackendName


class Region(GridPart):
    """A training Region."""

    account: AccountId | None = Field(default=None, examples=["210987654321"])
    """AWS account of this Region's data, training jobs and results; by default the home Region's."""
    data_buckets: tuple[BucketName, ...] = Field(default=(), examples=[["my-campaigns-us-west-2"]])
    """Buckets in this Region that its training jobs may read, in addition to the grid's own."""
    data_keys: tuple[KeyArn, ...] = Field(
        default=(), examples=[["arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"]]
    )
    """KMS keys in this Region that encrypt those buckets; their key policies must allow this account's roles."""
    residency: Areas = Field(default=(), examples=[["eu"]])
    """Geographies and Regions in which data of this Region's buckets may be, which lines cannot extend; by default
    all."""
    checkpoint_residency: Areas = Field(default=(), examples=[["eu", "us"]])
    """Geographies and Regions in which checkpoints of this Region's jobs may be, if the jobs move; by default those of
    `residency`."""
    subnets: tuple[SubnetId, ...] = Field(
        default=(), max_length=MAX_SUBNETS, examples=[["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]]
    )
    """Subnets of your VPC in this Region in which SageMaker runs training jobs; by default it runs them in none of your
    VPCs. Pods of `eks` run in the cluster's network."""
    security_groups: tuple[SecurityGroupId, ...] = Field(
        default=(), max_length=MAX_SECURITY_GROUPS, examples=[["sg-0123456789abcdef0"]]
    )
    """Security groups of that VPC for its training jobs."""
    file_systems: FileSystems = Field(default={}, examples=[{"fs-0123456789abcdef0": "EFS"}])
    """File systems whose folders channels may mount, each with its type, EFS or FSxLustre; by default none. SageMaker
    mounts them through that VPC, and `eks` by its `file_system_volumes`."""
    training_plans: tuple[TrainingPlanName, ...] = Field(default=(), examples=[["november-p5"]])
    """SageMaker training plans of this Region and account, by name, that lines may use; by default none."""
    service_queue: ServiceQueue | None = Field(default=None, examples=[{"instances": 16}])
    """A service queue of AWS Batch, for lines with `launch: queued`; by default none."""
    eks: EksCluster | None = Field(default=None, examples=[{"cluster": "research"}])
    """A cluster of Amazon EKS that runs training jobs of lines with `backend: eks`; by default none."""
    backend: BackendName = Field(default=DEFAULT_BACKEND, examples=["eks"])
    """The service that runs the training jobs of lines without `backend`: `sagemaker` or `eks`."""

    @model_validator(mode="after")
    def _backend_exists(self) -> Self:
        if self.backend == "eks" and self.eks is None:
            raise broken_rule("backend eks requires the Region's cluster; write `eks: {cluster: NAME}`", at="backend")
        return self

    @model_validator(mode="after")
    def _network_is_whole(self) -> Self:
        for present_field, missing in (("subnets", "security_groups"), ("security_groups", "subnets")):
            if getattr(self, present_field) and not getattr(self, missing):
                raise broken_rule(
                    f"a VPC requires both subnets and security_groups; {missing} is missing", at=present_field
                )
        for name in ("subnets", "security_groups"):
            ids = getattr(self, name)
            if len(set(ids)) < len(ids):
                raise broken_rule("each may be listed only once", at=name)
        if self.file_systems.keys() - self._file_system_volumes() and not self.subnets:
            rule = "training jobs mount a file system through a VPC; set subnets and security_groups, too"
            raise broken_rule(rule, at="file_systems")
        return self

    @model_validator(mode="after")
    def _volumes_are_of_listed_file_systems(self) -> Self:
        if unlisted := sorted(self._file_system_volumes() - self.file_systems.keys()):
            rule = (
                f"file_system_volumes has {unlisted[0]}, which file_systems of the Region does not list; add it there"
            )
            raise broken_rule(rule, at="eks")
        return self

    def _file_system_volumes(self) -> set[str]:
        return set(self.eks.file_system_volumes) if self.eks else set()

    @property
    def checkpoint_areas(self) -> Areas:
        """The geographies and Regions in which checkpoints of the Region's jobs may be; empty if all may have them."""
        return self.checkpoint_residency or self.residency

    @property
    def backends(self) -> tuple[BackendName, ...]:
        """The services that can run training jobs in the Region."""
        return ("sagemaker", "eks") if self.eks else ("sagemaker",)


def check_accounts(regions: Mapping[str, Region], home: str | None) -> None:
    """Raise an error for a Region whose account is not possible; `home` is the home Region's account, if given."""
    for region, settings in regions.items():
        if settings.account and not home:
            rule = "roles in that account must trust the home Region's account: set the grid's `account`, too"
            raise broken_rule(rule, region)
        if settings.service_queue and settings.account not in (None, home):
            rule = "a service queue must be in the home Region's account, but this Region is in another"
            raise broken_rule(f"{rule}; remove one of the two, and launch its lines direct", region)


def check_buckets(regions: Mapping[str, Region]) -> None:
    """Raise an error for a data bucket that is listed for two Regions."""
    owners: dict[str, str] = {}
    for region, settings in regions.items():
        for bucket in settings.data_buckets:
            if owners.setdefault(bucket, region) != region:
                raise broken_rule(f"{bucket} is also under {owners[bucket]}, but a bucket is in one Region", region)


def check_data_keys(regions: Mapping[str, Region]) -> None:
    """Raise an error for a data key that is in another Region."""
    for region, settings in regions.items():
        for key in settings.data_keys:
            if (key_region := names.region_of_arn(key)) != region:
                raise broken_rule(f"{key} is in {key_region}, but a key decrypts only in its own Region", region)


def check_volumes(regions: Mapping[str, Region], grid: str, home: str | None) -> None:
    """Raise an error for a volume of a bucket from which jobs of its Region may not read data.

    Args:
        home: The home Region's account, if it is given.
    """
    for region, settings in regions.items():
        data_bucket = names.data_bucket(grid, settings.account or home or "[0-9]{12}", region)
        if settings.eks:
            for bucket in settings.eks.s3_volumes:
                if bucket not in settings.data_buckets and not re.fullmatch(data_bucket, bucket):
                    rule = f"s3_volumes has {bucket}, which is no data bucket of this Region; add it to data_buckets"
                    raise broken_rule(rule, region)
