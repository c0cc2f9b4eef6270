"""What every part of grid.yaml has in common."""

from pydantic import BaseModel, ConfigDict


class GridPart(BaseModel):
    """A mapping of grid.yaml: frozen, and without keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, use_attribute_docstrings=True)
