"""What grid.yaml says of a training image."""

from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from traingrid.fields import ImageTag, Repository, Text, broken_rule
from traingrid.grid_part import GridPart

Target = Literal["cpu", "gpu"]
"""The stages of training_container/Dockerfile that are images of their own."""

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
"""SageMaker's built-in algorithms that are images of their own, by their names in the SageMaker Python SDK
(https://docs.aws.amazon.com/sagemaker/latest/dg/algos.html)."""

_FORMS = (
    {"build", "target"},
    {"repository", "tag"},
    {"framework", "version", "target"},
    {"algorithm", "version"},
    {"uri"},
)


class Image(GridPart):
    """A training image: built by the deployment, pushed to the grid's own ECR by somebody, AWS's, or any by its URI."""

    build: Literal["training"] | None = Field(default=None, examples=["training"])
    """What the deployment builds: training_container/ of this checkout. Jobs name it by its digest."""
    target: Target | None = Field(default=None, examples=["gpu"])
    """For which hosts it is: cpu or gpu."""
    repository: Repository | None = Field(default=None, examples=["training"])
    """Name of a repository that exists in every Region (its full name begins with the grid's)."""
    tag: ImageTag | None = Field(default=None, examples=["1"])
    """Tag of the image in that repository; quote it, or YAML reads a number."""
    framework: Text | None = Field(default=None, examples=["tensorflow"])
    """One of AWS's deep-learning containers for training, by its framework, its version, and a target."""
    algorithm: BuiltInAlgorithm | None = Field(default=None, examples=["image-classification"])
    """One of SageMaker's built-in algorithms, by its name and its version."""
    version: Text | None = Field(default=None, examples=["2.19"])
    """Version of the framework or algorithm; quote it, or YAML reads a number."""
    python: Text | None = Field(default=None, examples=["py312"])
    """Python of that container, where it comes with more than one."""
    uri: Text | None = Field(
        default=None, examples=["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu"]
    )
    """URI of an image; "{region}" stands for the job's Region, whose registry SageMaker pulls from."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = {name for name in type(self).model_fields if getattr(self, name) is not None}
        if given - {"python"} not in _FORMS or (self.python and not self.framework):
            forms = "a build with a target, a repository with a tag, a framework with version and target"
            raise broken_rule(f"an image is either {forms}, an algorithm with a version, or a uri")
        if self.framework in get_args(BuiltInAlgorithm) and self.framework != "xgboost":  # which takes scripts, too
            rule = f"it takes no script, so it is no framework; write {{algorithm: {self.framework}, version: ...}}"
            raise broken_rule(rule, at="framework")
        if self.repository == "orchestrator":
            raise broken_rule("the orchestrator's image has a repository of this name already", at="repository")
        return self

    @property
    def is_of_aws(self) -> bool:
        """Whether it is one of AWS's own, in another registry in each Region."""
        return bool(self.framework or self.algorithm)
