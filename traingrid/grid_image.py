"""What grid.yaml says of a training image."""

from typing import Literal, Self

from pydantic import Field, model_validator

from traingrid.fields import ImageTag, Repository, Text, broken_rule
from traingrid.grid_part import GridPart

Target = Literal["cpu", "gpu"]
"""The stages of training_container/Dockerfile that are images of their own."""


class Image(GridPart):
    """A training image: built by the deployment, pushed to the grid's own ECR by somebody, or any image's URI."""

    build: Literal["training"] | None = Field(default=None, examples=["training"])
    """What the deployment builds: training_container/ of this checkout. Jobs name it by its digest."""
    target: Target | None = Field(default=None, examples=["gpu"])
    """For which hosts it is built: cpu or gpu."""
    repository: Repository | None = Field(default=None, examples=["training"])
    """Name of a repository that exists in every Region (its full name begins with the grid's)."""
    tag: ImageTag | None = Field(default=None, examples=["1"])
    """Tag of the image in that repository; quote it, or YAML reads a number."""
    uri: Text | None = Field(
        default=None, examples=["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu"]
    )
    """URI of an image; "{region}" stands for the job's Region, whose registry SageMaker pulls from."""

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        forms = (self.build, self.repository, self.uri)
        halves = (self.target is None) != (self.build is None) or (self.tag is None) != (self.repository is None)
        if halves or sum(form is not None for form in forms) != 1:
            raise broken_rule("an image is either a build with a target, a repository with a tag, or a uri")
        if self.repository == "orchestrator":
            raise broken_rule("the orchestrator's image has a repository of this name already", at="repository")
        return self
