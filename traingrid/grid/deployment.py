"""Deployment: the names and ARNs of a deployed grid, read from the environment of Lambda or the orchestrator."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from pydantic import ValidationError

from traingrid import names
from traingrid.algorithms.built_in import built_in
from traingrid.aws.clients import ActingRole
from traingrid.errors import UsageError
from traingrid.grid import framework_images
from traingrid.grid.framework_images import DEEP_LEARNING_CONTAINERS, SOME_ACCOUNT, FrameworkImage
from traingrid.grid.image import Image
from traingrid.grid.model import GridSettings
from traingrid.names import Part


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A deployed grid.

    Attributes:
        grid: The configuration of the deployed grid.
        account: The id of the home Region's AWS account.
        images: The tag, "@" and the digest of each training image that the deployment built, by target.
        frameworks: AWS's own training images that the deployment found, by alias.
        job_queue: The name or ARN of the Batch job queue; empty in processes that submit no jobs.
        job_definition: The name or ARN of the Batch job definition; empty in processes that submit no jobs.
        topic: The ARN of the topic of notifications; empty in processes that publish none.
        pod_image: The orchestrator's image, which provides /opt/ml in pods on Amazon EKS; empty without clusters.
        part: The part of this process in Regions of other accounts, which selects the role that it assumes there.
    """

    grid: GridSettings
    account: str
    table: str
    manifest_bucket: str
    images: Mapping[str, str] = field(default_factory=dict)
    frameworks: Mapping[str, FrameworkImage] = field(default_factory=dict)
    job_queue: str = ""
    job_definition: str = ""
    topic: str = ""
    pod_image: str = ""
    part: Part = "use"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], part: Part = "use") -> Self:
        """Read the variables that the control stack sets.

        Args:
            part: The part of this process in Regions of other accounts.

        Raises:
            UsageError: A variable is missing, or another version of traingrid deployed the grid.
        """
        try:
            deployment = cls(
                grid=GridSettings.from_environment(environment["TRAINGRID_GRID"]),
                account=environment["TRAINGRID_ACCOUNT"],
                table=environment["TRAINGRID_TABLE"],
                manifest_bucket=environment["TRAINGRID_MANIFEST_BUCKET"],
                images=json.loads(environment.get("TRAINGRID_IMAGES", "{}")),
                frameworks=framework_images.from_environment(environment.get("TRAINGRID_FRAMEWORKS", "{}")),
                job_queue=environment.get("TRAINGRID_JOB_QUEUE", ""),
                job_definition=environment.get("TRAINGRID_JOB_DEFINITION", ""),
                topic=environment.get("TRAINGRID_TOPIC", ""),
                pod_image=environment.get("TRAINGRID_POD_IMAGE", ""),
                part=part,
            )
        except KeyError as missing:
            message = f"The environment variable {missing.args[0]} is not set."
            next_step = "Run this from the job definition or function that `cdk deploy` created."
            raise UsageError(message, next_step) from None
        except ValidationError as error:
            message = f"This version of traingrid cannot read the deployed grid: {error}."
            raise UsageError(message, "Deploy it with this version: npx cdk deploy --all.") from None

        framework_aliases = {alias for alias, image in deployment.grid.images.items() if image.is_of_aws}
        missing_images = set(deployment.grid.targets()) - set(deployment.images)
        missing_images |= framework_aliases - set(deployment.frameworks)
        if missing_images:
            message = f"The environment has no image for {', '.join(sorted(missing_images))}."
            raise UsageError(message, "Deploy the grid again: npx cdk deploy --all.")
        return deployment

    def account_of(self, region: str) -> str:
        """Return the account of a training Region; for a removed Region, the home Region's account."""
        return self.grid.account_of(region, self.account) if region in self.grid.regions else self.account

    def acting_role_in(self, region: str) -> ActingRole | None:
        """Return the role that this process assumes in a training Region; None if the Region is in its own account."""
        account = self.account_of(region)
        if account == self.account:
            return None
        arn = names.role_arn(account, names.acting_role(self.grid.name, self.part, region))
        return ActingRole(arn=arn, session=f"{self.grid.name}-{self.part}", home=self.grid.home)

    def role_in(self, region: str) -> str:
        """Return the ARN of the grid's role with which this process acts in a training Region.

        Empty for a user of the command line in the home Region's account, who has a role of their own.
        """
        if acting := self.acting_role_in(region):
            return acting.arn
        return "" if self.part == "use" else names.role_arn(self.account, names.home_role(self.grid.name, self.part))

    def image_uri(self, image: str, region: str) -> str:
        """Return the URI of a job's training image in `region`.

        Args:
            image: An alias of grid.yaml, or the URI of an image.

        Raises:
            KeyError: `image` is neither an alias nor a URI.
        """
        alias = self.grid.images.get(image)
        if alias is None and "/" not in image:
            raise KeyError(image)
        if alias is None or alias.uri is not None:
            return (alias.uri or image if alias else image).replace("{region}", region)
        if alias.is_of_aws:
            return self._framework(image, alias).uri(region)
        repository = names.repository(self.grid.name, alias.build or alias.repository or "")
        digest = self.images.get(alias.target or "", "").partition("@")[2]
        if digest:
            return names.image_of_digest(self.account_of(region), region, repository, digest)
        # A grid that is only planned has no built image yet, and so no digest.
        return names.image_uri(
            self.account_of(region), region, repository, alias.tag or f"{names.BUILT_TAG}-{alias.target}"
        )

    def _framework(self, alias: str, settings: Image) -> FrameworkImage:
        """Return AWS's own image for an alias; without a deployment, its tag is partial and its registry a default.

        The images of algorithms with known rules are complete also without a deployment.
        """
        if alias in self.frameworks:
            return self.frameworks[alias]
        image = f"{settings.framework}-training:{settings.version}-{settings.target}"
        planned = FrameworkImage(image=image, registry=DEEP_LEARNING_CONTAINERS)
        if settings.algorithm:
            algorithm = built_in(settings.algorithm, settings.version or "")
            image = algorithm.image if algorithm else f"{settings.algorithm}:{settings.version}"
            registries = algorithm.registries if algorithm else {}
            planned = FrameworkImage(image=image, registry=SOME_ACCOUNT, other_registries=registries)
        return planned

    def execution_role_arn(self, region: str) -> str:
        """Return the ARN of the SageMaker execution role of a training Region."""
        return names.execution_role_arn(self.grid.name, self.account_of(region), region)

    def bucket_regions(self) -> dict[str, str]:
        """Return the Region of every bucket that a manifest may reference."""
        return {
            bucket: region
            for region in self.grid.regions
            for bucket in self.grid.data_buckets(self.account_of(region), region)
        }
