"""What grid.yaml says of a training image."""

from typing import Self

from pydantic import Field, model_validator

from traingrid.fields import ImageTag, Repository, Text, broken_rule
from traingrid.grid_part import GridPart


class Image(GridPart):
    """A training image: a repository and a tag in the grid's own ECR, the same in every Region, or any image's URI."""

    repository: Repository | None = Field(default=None, examples=["training"])
    """Name of a repository that every region stack creates (its full name begins with the grid's)."""
    tag: ImageTag | None = Field(default=None, examples=["1"])
    """Tag of the image in that repository; quote it, or YAML reads a number."""
    uri: Text | None = Field(
        default=None, examples=["763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu"]
    )
    """URI of an image; "{region}" stands for the job's Region, whose registry SageMaker pulls from."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.uri is None) == (self.repository is None) or (self.tag is None) != (self.repository is None):
            raise broken_rule("an image is either a repository with a tag or a uri")
        if self.repository == "orchestrator":
            raise broken_rule("the control stack has a repository of this name already", at="repository")
        return self
