"""Grid: the model of grid.yaml, with a home Region, training Regions and the defaults of jobs.

`load_grid` reads and validates the file, and reports all of its errors at once. Lambda functions and the orchestrator
read the same grid from their environment (`GridSettings.to_environment`, `GridSettings.from_environment`).
"""

from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from traingrid import names
from traingrid.errors import UsageError
from traingrid.grid.alarms import Alarms
from traingrid.grid.catalog import DSQL_CATALOG, NO_CATALOG, CatalogUrl
from traingrid.grid.encryption import Encryption, check_keys
from traingrid.grid.field_types import (
    AccountId,
    AlgorithmName,
    ImageRegistry,
    InstanceType,
    RegionName,
    Text,
    broken_rule,
)
from traingrid.grid.file_systems import check_file_systems
from traingrid.grid.image import Image, check_efa_versions
from traingrid.grid.job_defaults import JobDefaults
from traingrid.grid.limits import SubmissionLimits
from traingrid.grid.network import Network
from traingrid.grid.notifications import Notifications
from traingrid.grid.on_dataset import MAX_RULES, DatasetRule, check_rules
from traingrid.grid.orchestrator import Orchestrator
from traingrid.grid.part import GridPart
from traingrid.grid.queues import ONLY_SHARE, Share, Weight, check_launch, check_shares
from traingrid.grid.region import Region, check_accounts, check_buckets, check_data_keys, check_volumes
from traingrid.grid.residency import check_indirect_copies, check_residencies, is_resident
from traingrid.grid.training import Training

NAME_LIMIT = 24
"""Maximum length of a grid's name. An S3 bucket's name has at most 63 characters
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html), and `names.manifest_bucket` adds
"-manifests-", the 12 digits of the account, a hyphen and at most 14 characters for the Region."""

REPLICATION_LIMIT = 25
"""Maximum number of destinations of a registry's replication rules
(https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html#replication-considerations)."""

LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3653)
"""The retention periods that CloudWatch Logs offers (PutRetentionPolicy in its API reference), up to ten years."""


class GridError(UsageError):
    """An invalid grid.yaml; each of `problems` is a sentence with file, line, key, value, rule and next step."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


_NOT_IN_ENVIRONMENT = {"abandoned_regions", "alarms", "catalog", "network", "notifications", "on_dataset", "rebuild"}
"""The fields that neither children nor functions need; one function needs `on_dataset`."""


def _grid_name(name: str) -> str:
    if name == "default":
        rule = 'the event bus has the name of the grid, and every account already has a bus named "default"'
        raise broken_rule(rule, example=True)
    if name.startswith(("xn--", "sthree-", "amzn-s3-demo-", "aws-")):
        raise broken_rule("AWS reserves names with this prefix", example=True)
    if ending := names.RESERVED_ENDING.search(name):
        other_name = name.removesuffix(ending[0])
        raise broken_rule(f"a grid named {other_name} could have resources with the same names; choose another ending")
    return name


class GridSettings(GridPart):
    """A home Region, its training Regions, and the defaults of jobs, which manifest lines can override."""

    name: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=NAME_LIMIT, strict=True),
        AfterValidator(_grid_name),
    ] = Field(examples=["traingrid"])
    """Prefix of the names of the grid's resources: lower-case letters, digits and single hyphens."""
    home: RegionName = Field(examples=["us-east-1"])
    """Region of the control plane; it need not be a training Region."""
    account: AccountId | None = Field(default=None, examples=["123456789012"])
    """AWS account of the control plane and of Regions without `account`; required only if a Region has another one."""
    regions: dict[RegionName, Region] = Field(min_length=1, examples=[{"us-west-2": {}}])
    """Training Regions."""
    abandoned_regions: tuple[RegionName, ...] = Field(default=(), examples=[["eu-west-1"]])
    """Regions that were removed from the grid although jobs may still run there: traingrid does not stop these jobs or
    record their results. A deployment refuses to remove any other Region before its jobs have ended."""
    shares: dict[Share, Weight] = Field(default={}, max_length=20, examples=[{"production": 4, "research": 1}])
    """Shares of the queues, each with a weight: four times the weight gives four times the capacity. By default jobs
    start in the order of their submission."""
    images: dict[Text, Image] = Field(min_length=1, examples=[{"resnet": {"repository": "training", "tag": "1"}}])
    """Training images by alias."""
    job: JobDefaults = Field(examples=[{"image": "resnet", "instance_type": "ml.g5.48xlarge"}])
    """Defaults of every job."""
    instance_types: tuple[InstanceType, ...] = Field(default=(), examples=[["ml.p4d.24xlarge", "ml.g5.48xlarge"]])
    """Instance types that a manifest may use in addition to that of `job`."""
    image_registries: tuple[ImageRegistry, ...] = Field(
        default=(), examples=[["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training"]]
    )
    """ECR registries, or parts of them, whose images a manifest may specify by URI, in addition to the grid's own ECR;
    "{region}" is replaced by the job's Region."""
    replicate_images: bool = Field(default=True, strict=True, examples=[False])
    """True if the deployment manages the replication rules of the home Region's ECR; an account has only one set."""
    rebuild: int = Field(default=0, ge=0, strict=True, examples=[1])
    """Changing the number makes the deployment build all its images again, under new tags, if an image was deleted."""
    algorithms: tuple[AlgorithmName, ...] = Field(default=(), examples=[["my-algorithm"]])
    """SageMaker algorithm resources that a manifest may use; in an ARN, "{region}" is replaced by the job's Region."""
    training: Training = Training()
    """Restrictions of every training job, which no line can change."""
    limits: SubmissionLimits = SubmissionLimits()
    """Limits of one submission."""
    orchestrator: Orchestrator = Orchestrator()
    """Size and number of the Batch children."""
    network: Network = Field(default=Network(), examples=["private"])
    """Network of the Batch children: `public`, `private`, or `{kind: existing, vpc: …, subnets: […]}`."""
    encryption: Encryption = Field(default=Encryption(), examples=["kms"])
    """Keys that encrypt data at rest: `s3`, `kms`, or `{kind: kms, keys: {…}}` with your own keys."""
    alarms: Alarms = Field(default=Alarms(), examples=[{"emails": ["ml-on-call@example.com"]}])
    """Addresses that are notified of alarms, and the monthly budget."""
    notifications: Notifications | None = Field(default=None, examples=[{"emails": ["team@example.com"]}])
    """Messages about the first failure, the budget and the end of each submission, to an SNS topic with these
    subscribers; `{}` for a topic without subscribers. There is no topic without this key."""
    catalog: CatalogUrl = Field(default=NO_CATALOG, examples=["postgresql://traingrid@db.example.com/catalog"])
    """Database of campaigns, datasets, prices and runs: `none` for a SQLite file beside grid.yaml, `dsql` for a cluster
    of Aurora DSQL that the deployment creates (experimental), or the URL of a database, without a password. Only
    commands use it."""
    on_dataset: tuple[DatasetRule, ...] = Field(
        default=(), max_length=MAX_RULES, examples=[[{"name": "night", "match": {"campaign": "oslo"}}]]
    )
    """Rules that generate a manifest when a dataset version is registered, so that uploading data starts training."""
    moves: bool = Field(default=False, strict=True, examples=[True])
    """True if lines may have `copy_from`: children then copy data between the grid's Regions, and may read all data
    buckets and write to the grid's own."""
    log_retention_days: int = Field(default=90, strict=True, examples=[90])
    """Days for which logs of the control plane are retained."""

    @field_validator("regions", mode="before")
    @classmethod
    def _region_without_settings(cls, regions: object) -> object:
        """Accept a Region without a value, such as `us-west-2:`, as a Region with default settings."""
        if isinstance(regions, dict):
            return {region: {} if settings is None else settings for region, settings in regions.items()}
        return regions

    @field_validator("network", "encryption", mode="before")
    @classmethod
    def _one_word(cls, settings: object) -> object:
        """Accept `network: private` as short for `network: {kind: private}`."""
        return {"kind": settings} if isinstance(settings, str) else settings

    @field_validator("images")
    @classmethod
    def _one_efa_for_each_target(cls, images: dict[str, Image]) -> dict[str, Image]:
        check_efa_versions(images.values())
        return images

    @field_validator("encryption")
    @classmethod
    def _every_region_has_a_key(cls, encryption: Encryption, info: ValidationInfo) -> Encryption:
        if "home" in info.data and "regions" in info.data:  # absent if invalid: then pydantic reports that error
            check_keys(encryption.keys, {info.data["home"], *info.data["regions"]})
        return encryption

    @field_validator("catalog")
    @classmethod
    def _cluster_has_no_key(cls, catalog: str, info: ValidationInfo) -> str:
        if catalog == DSQL_CATALOG and "encryption" in info.data and info.data["encryption"].kind == "kms":
            raise broken_rule("Aurora DSQL encrypts with keys of AWS here; `encryption: kms` requires another catalog")
        return catalog

    @field_validator("network")
    @classmethod
    def _zones_are_at_home(cls, network: Network, info: ValidationInfo) -> Network:
        home = info.data.get("home", "")
        if home and any(zone[:-1] != home for zone in network.zones):
            raise broken_rule(f"zones must be in the home Region, such as {home}a", at="zones")
        return network

    @model_validator(mode="after")
    def _key_lies_in_its_account(self) -> Self:
        """Reject a key in another account than the data that it encrypts, because its key policy cannot be checked."""
        for region, key in self.encryption.keys.items():
            users = {self.account} if region == self.home else set()
            if region in self.regions:
                users.add(self.account_of(region, self.account or ""))
            account = names.account_of_arn(key)
            if self.account and users != {account}:
                accounts = ", ".join(sorted(filter(None, users)))
                rule = f"the key of {region} is in account {account}, but its data is in account {accounts}"
                raise broken_rule(f"{rule}; use a key of that account, or remove `keys` to create them", "encryption")
        return self

    @model_validator(mode="after")
    def _one_replication_rule(self) -> Self:
        replicas = len(self.replicas())
        if self.replicate_images and replicas > REPLICATION_LIMIT:
            rule = f"ECR replicates images to at most {REPLICATION_LIMIT} other Regions; this grid has {replicas}"
            raise broken_rule(f"{rule}; list fewer Regions, or set `replicate_images: false`", at="regions")
        return self

    @model_validator(mode="after")
    def _children_reach_clusters(self) -> Self:
        """Reject a cluster that children cannot reach: the network for training at home only has no internet route."""
        if self.network.kind == "private" and set(self.regions) == {self.home} and self.regions[self.home].eks:
            rule = "children have no route to the API of an EKS cluster in a private network without other Regions"
            next_step = "use `public`, or an existing network with a route to the cluster and to the API of EKS"
            raise broken_rule(f"{rule}; {next_step}", at="network")
        return self

    @model_validator(mode="after")
    def _copies_stay_within_residencies(self) -> Self:
        if self.moves:
            check_indirect_copies({region: self.regions[region].residency for region in self.at_home()})
            areas = {region: self.regions[region].checkpoint_areas for region in self.at_home()}
            check_indirect_copies(areas, "checkpoints")
        return self

    @field_validator("abandoned_regions")
    @classmethod
    def _none_is_both(cls, abandoned: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if both := sorted(set(abandoned) & set(info.data.get("regions", ()))):
            raise broken_rule(f"{', '.join(both)} is also in `regions`; remove it from one of them")
        return abandoned

    @field_validator("regions")
    @classmethod
    def _check_regions_together(cls, regions: dict[str, Region], info: ValidationInfo) -> dict[str, Region]:
        if "account" in info.data:  # absent if invalid: then pydantic reports that error
            check_accounts(regions, info.data["account"])
        if {"name", "account"} <= info.data.keys():
            check_volumes(regions, info.data["name"], info.data["account"])
        check_buckets(regions)
        check_data_keys(regions)
        check_file_systems({region: settings.file_systems for region, settings in regions.items()})
        check_residencies({region: settings.residency for region, settings in regions.items()})
        check_residencies({region: settings.checkpoint_areas for region, settings in regions.items()})
        return regions

    @field_validator("job")
    @classmethod
    def _image_is_described(cls, job: JobDefaults, info: ValidationInfo) -> JobDefaults:
        images = info.data.get("images")  # absent if invalid: then pydantic reports that error
        if images is not None and job.image not in images and "/" not in job.image:
            context = {"choices": tuple(images), "at": "image", "value": job.image}
            raise PydanticCustomError("unknown_image", "`images` has no such alias", context)
        return job

    @field_validator("job")
    @classmethod
    def _launch_is_possible(cls, job: JobDefaults, info: ValidationInfo) -> JobDefaults:
        if "regions" in info.data and "shares" in info.data:  # absent if invalid: then pydantic reports that error
            queues = {name: region.service_queue for name, region in info.data["regions"].items()}
            check_launch(job.launch, job.share, info.data["shares"], queues)
        return job

    @model_validator(mode="after")
    def _shares_are_the_same_everywhere(self) -> Self:
        queues = {name: region.service_queue for name, region in self.regions.items()}
        check_shares(self.shares, queues, self.allowed_instance_types())
        return self

    @field_validator("training")
    @classmethod
    def _default_run_is_not_too_long(cls, training: Training, info: ValidationInfo) -> Training:
        job = info.data.get("job")  # absent if invalid: then pydantic reports that error
        if job is not None and job.max_runtime > training.max_runtime:
            rule = f"`job` has a longer max_runtime, {job.max_runtime}s, so lines without max_runtime could not start"
            raise broken_rule(rule, at="max_runtime")
        return training

    @field_validator("training")
    @classmethod
    def _clusters_can_enforce_it(cls, training: Training, info: ValidationInfo) -> Training:
        """Reject an isolation that Kubernetes does not have: all containers of a pod share one network.

        Source: https://kubernetes.io/docs/concepts/workloads/pods/#pod-networking. The container that transfers data
        and results needs S3, so a NetworkPolicy cannot keep the training itself from it.
        """
        clusters = [region for region, settings in info.data.get("regions", {}).items() if settings.eks]
        if training.network_isolation and clusters:
            rule = (
                f"pods of the cluster in {clusters[0]} cannot be isolated from S3; remove `eks` there, or write false"
            )
            raise broken_rule(rule, at="network_isolation")
        return training

    @field_validator("on_dataset")
    @classmethod
    def _rules_go_together(cls, rules: tuple[DatasetRule, ...], info: ValidationInfo) -> tuple[DatasetRule, ...]:
        return check_rules(rules, info.data.get("regions"))

    @field_validator("log_retention_days")
    @classmethod
    def _retention_exists(cls, days: int) -> int:
        if days not in LOG_RETENTION_DAYS:
            raise broken_rule(f"CloudWatch Logs retains logs for {', '.join(map(str, LOG_RETENTION_DAYS))} days")
        return days

    def allowed_instance_types(self) -> tuple[str, ...]:
        """Return the instance types that training jobs may have, without duplicates and with the default first."""
        return tuple(dict.fromkeys((self.job.instance_type, *self.instance_types)))

    def repositories(self) -> tuple[str, ...]:
        """Return the short names of the ECR repositories of every training Region, always including `training`."""
        return tuple(sorted({"training", *(image.repository for image in self.images.values() if image.repository)}))

    def targets(self) -> tuple[str, ...]:
        """Return the targets for which the deployment builds the training image."""
        return tuple(sorted({image.target for image in self.images.values() if image.build and image.target}))

    def service_queue(self, region: str) -> str:
        """Return the name of a Region's service queue; empty if the grid has no such Region or queue."""
        queue = self.regions[region].service_queue if region in self.regions else None
        return names.service_queue(self.name, quota=bool(queue.quota_shares)) if queue else ""

    def share_of(self, share: str) -> str:
        """Return the share of a job that was submitted with `share`; the default if that is empty or was removed."""
        return share if share in self.shares else next(iter(self.shares), ONLY_SHARE)

    def account_of(self, region: str, home: str) -> str:
        """Return the account of a training Region; `home` is the home Region's account, which may be a CDK token."""
        return self.regions[region].account or home

    def with_clusters(self) -> list[str]:
        """Return the training Regions with a Kubernetes cluster."""
        return [region for region, settings in self.regions.items() if settings.eks]

    def at_home(self) -> list[str]:
        """Return the training Regions in the account of the home Region."""
        return [region for region in self.regions if region not in self.other_accounts()]

    def may_hold(self, region: str, source: str) -> bool:
        """Return True if data of the Region `source` may be in another Region, according to its `residency`."""
        return source not in self.regions or is_resident(region, self.regions[source].residency)

    def may_hold_checkpoints(self, region: str, source: str) -> bool:
        """Return True if checkpoints of jobs in the Region `source` may be in another Region."""
        return source not in self.regions or is_resident(region, self.regions[source].checkpoint_areas)

    def copy_sources(self, region: str) -> list[str]:
        """Return the Regions from whose buckets data may be copied to a Region; empty unless `moves` is set."""
        return [source for source in self._move_sources(region) if self.may_hold(region, source)]

    def checkpoint_sources(self, region: str) -> list[str]:
        """Return the Regions from which checkpoints may be copied to a Region; empty unless `moves` is set."""
        return [source for source in self._move_sources(region) if self.may_hold_checkpoints(region, source)]

    def _move_sources(self, region: str) -> list[str]:
        """Return the other Regions in the account of the home Region; empty unless `moves` is set."""
        regions = self.at_home() if self.moves else []
        return [source for source in regions if source != region] if region in regions else []

    def other_accounts(self) -> dict[str, str]:
        """Return the accounts of the training Regions that are not in the home Region's account, by Region."""
        account_by_region = {region: settings.account for region, settings in self.regions.items() if settings.account}
        return {region: account for region, account in account_by_region.items() if account != self.account}

    def replicas(self) -> list[str]:
        """Return the training Regions whose registry is not the home Region's."""
        return [region for region in self.regions if region != self.home or region in self.other_accounts()]

    def output_key(self, account: str, region: str) -> str:
        """Return the ARN of the KMS key, or of its alias, for results in `region`; empty with S3-managed keys."""
        if self.encryption.kind == "s3":
            return ""
        return self.encryption.keys.get(region) or f"arn:aws:kms:{region}:{account}:{names.data_key(self.name)}"

    def data_buckets(self, account: str, region: str) -> tuple[str, ...]:
        """Return the buckets that jobs in `region` may read: the grid's own and those listed in grid.yaml."""
        return (names.data_bucket(self.name, account, region), *self.regions[region].data_buckets)

    def to_environment(self, *, rules: bool = False) -> str:
        """Return the grid as compact JSON for the environment variable TRAINGRID_GRID.

        Defaults and the fields that only deployments and commands need are omitted.

        Args:
            rules: Include `on_dataset`, which only the function that registers datasets needs.
        """
        excluded = _NOT_IN_ENVIRONMENT - ({"on_dataset"} if rules else set())
        return self.model_dump_json(exclude_defaults=True, exclude=excluded)

    @classmethod
    def from_environment(cls, text: str) -> Self:
        """Return the grid from the JSON of `to_environment`.

        Raises:
            pydantic.ValidationError: The JSON is not that of a grid of this version.
        """
        return cls.model_validate_json(text)
