"""Grid part: the base class of the sections of grid.yaml."""

from pydantic import BaseModel, ConfigDict


class GridPart(BaseModel):
    """A mapping of grid.yaml: immutable, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, use_attribute_docstrings=True)
