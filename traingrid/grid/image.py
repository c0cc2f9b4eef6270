"""Training images: an entry of the `images` section of grid.yaml."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, StringConstraints, model_validator

from traingrid.grid.field_types import ImageTag, Repository, Text, broken_rule
from traingrid.grid.part import GridPart

Target = Literal["cpu", "gpu", "torch"]
"""The stages of training_container/Dockerfile and Dockerfile.torch that are separate images."""

EfaVersion = Annotated[str, StringConstraints(pattern=r"^(none|[0-9]+\.[0-9]+\.[0-9]+)$", strict=True)]
"""Version of AWS's EFA installer, as in the name of its archive: aws-efa-installer-1.49.0.tar.gz
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html); "none" for an image without EFA."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", strict=True)]
"""SHA-256 of a file, in hexadecimal digits."""

NO_EFA = "none"

OLDEST_EFA = (1, 39, 0)
"""The oldest installer that `efa` accepts, because it contains the NCCL plugin: AWS's engineers name 1.39
(https://github.com/mosaicml/composer/pull/3844), its release notes 1.38
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.html)."""

HANGING_EFA = (1, 47, 0), (1, 49, 0)
"""The first installer whose NCCL plugin hangs in large broadcasts between hosts, 1.18.0, and the first one of which a
source names the fix, with the plugin 1.20.0 (https://github.com/aws/deep-learning-containers/pull/6668)."""

EFA_TARGETS: tuple[Target, ...] = ("gpu", "torch")
"""The targets whose Dockerfile stage can install EFA."""

TORCH: Target = "torch"
"""The target with PyTorch, on GPUs and CPUs. The others have TensorFlow, Horovod and MPI."""

BuiltInAlgorithm = Literal[
    "blazingtext",
    "factorization-machines",
    "forecasting-deepar",
    "image-classification",
    "ipinsights",
    "kmeans",
    "knn",
    "lda",
    "linear-learner",
    "ntm",
    "object-detection",
    "object2vec",
    "pca",
    "randomcutforest",
    "semantic-segmentation",
    "seq2seq",
    "xgboost",
]
"""SageMaker's built-in algorithms that have a separate image, by their names in the SageMaker Python SDK
(https://docs.aws.amazon.com/sagemaker/latest/dg/algos.html)."""

_FORMS = (
    {"build", "target"},
    {"repository", "tag"},
    {"framework", "version", "target"},
    {"algorithm", "version"},
    {"uri"},
)


class Image(GridPart):
    """A training image: built by the deployment, pushed to the grid's ECR, AWS's own, or any image by URI."""

    build: Literal["training"] | None = Field(default=None, examples=["training"])
    """Source that the deployment builds: training_container/ of this checkout. Jobs use the image by its digest."""
    target: Target | None = Field(default=None, examples=["gpu"])
    """Type of hosts that the image is for, cpu or gpu; torch for a built image with PyTorch, which serves both."""
    efa: EfaVersion | None = Field(default=None, examples=["none"])
    """Version of AWS's EFA installer in a built image for GPUs, which requires `efa_sha256`, or `none`. By default the
    version that the Dockerfile pins."""
    efa_sha256: Sha256 | None = Field(
        default=None, examples=["cf2e9281a2328a243c76f911a490faed43ca0fecfe4733c25e34b2e92a32c309"]
    )
    """SHA-256 of that version's archive, which AWS publishes
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-verify.html)."""
    repository: Repository | None = Field(default=None, examples=["training"])
    """Name of a repository that exists in every Region, without the grid's name, with which its full name begins."""
    tag: ImageTag | None = Field(default=None, examples=["1"])
    """Tag of the image in that repository; quote it, because YAML reads 1 as a number."""
    framework: Text | None = Field(default=None, examples=["tensorflow"])
    """Framework of one of AWS's deep-learning containers for training; requires `version` and `target`."""
    algorithm: BuiltInAlgorithm | None = Field(default=None, examples=["image-classification"])
    """Name of one of SageMaker's built-in algorithms; requires `version`."""
    version: Text | None = Field(default=None, examples=["2.19"])
    """Version of the framework or algorithm; quote it, because YAML reads 2.19 as a number."""
    python: Text | None = Field(default=None, examples=["py312"])
    """Python version of that container, if it is available with more than one."""
    uri: Text | None = Field(
        default=None, examples=["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu"]
    )
    """URI of an image; "{region}" is replaced by the job's Region, from whose registry SageMaker pulls."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        """Reject an image with the keys of several forms, and combinations that do not exist."""
        fields = {name for name in type(self).model_fields if getattr(self, name) is not None}
        self._check_efa()
        if fields - {"python", "efa", "efa_sha256"} not in _FORMS or (self.python and not self.framework):
            forms = "a build with a target, a repository with a tag, a framework with version and target"
            raise broken_rule(f"an image is either {forms}, an algorithm with a version, or a uri")
        if self.framework and self.target == TORCH:
            rule = f"AWS's container of {self.framework} has the target cpu or gpu; torch is for build: training"
            raise broken_rule(rule, at="target")
        if self.framework in get_args(BuiltInAlgorithm) and self.framework != "xgboost":  # xgboost also runs scripts
            rule = f"this algorithm does not run scripts; write {{algorithm: {self.framework}, version: ...}}"
            raise broken_rule(rule, at="framework")
        if self.repository == "orchestrator":
            raise broken_rule("this name is reserved for the repository of the orchestrator's image", at="repository")
        return self

    def _check_efa(self) -> None:
        """Raise an error if the image cannot have this EFA, or if its archive could not be verified."""
        efa_fields = {"efa": self.efa, "efa_sha256": self.efa_sha256}
        if any(efa_fields.values()) and (not self.build or self.target not in EFA_TARGETS):
            field = next(name for name, value in efa_fields.items() if value)
            targets = " or ".join(EFA_TARGETS)
            rule = f"only an image with build: training and the target {targets} can have EFA; remove it"
            raise broken_rule(rule, at=field)
        if not self.efa or self.efa == NO_EFA:
            if self.efa_sha256:
                raise broken_rule("it is the checksum of a version; set efa, too", at="efa_sha256")
            return
        version = tuple(map(int, self.efa.split(".")))
        oldest = ".".join(map(str, OLDEST_EFA))
        if version < OLDEST_EFA:
            raise broken_rule(f"the oldest supported version of the EFA installer is {oldest}", at="efa")
        if HANGING_EFA[0] <= version < HANGING_EFA[1]:
            fixed = ".".join(map(str, HANGING_EFA[1]))
            rule = f"NCCL may hang in broadcasts between hosts with this version; use {fixed} or newer"
            raise broken_rule(rule, at="efa")
        if not self.efa_sha256:
            page = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-verify.html"
            raise broken_rule(f"a version requires efa_sha256, its checksum on {page}", at="efa")

    @property
    def has_efa(self) -> bool | None:
        """True if the image has EFA; None if that is unknown, because the deployment does not build it for GPUs."""
        return self.efa != NO_EFA if self.build and self.target in EFA_TARGETS else None

    def build_arguments(self) -> tuple[str, ...]:
        """Return the arguments of the Dockerfile that grid.yaml sets, each as NAME=VALUE."""
        arguments = {"EFA": self.efa, "EFA_SHA256": self.efa_sha256}
        return tuple(f"{name}={value}" for name, value in arguments.items() if value)

    @property
    def is_of_aws(self) -> bool:
        """True for one of AWS's own images, whose registry depends on the Region."""
        return bool(self.framework or self.algorithm)


def check_efa_versions(images: Iterable[Image]) -> None:
    """Reject two versions of EFA for one target, because a deployment builds each target once.

    Raises:
        ValueError: The aliases of a target differ in `efa` or `efa_sha256`.
    """
    versions: dict[Target, set[str]] = {}
    for image in images:
        if image.build and image.target:
            versions.setdefault(image.target, set()).add(" ".join(image.build_arguments()) or "the default")
    for target, versions_of_target in versions.items():
        if len(versions_of_target) > 1:
            targets = ", ".join(sorted(versions_of_target))
            rule = (
                f"a deployment builds the target {target} once, so its aliases need the same efa; they have {targets}"
            )
            raise broken_rule(rule, at="images")
