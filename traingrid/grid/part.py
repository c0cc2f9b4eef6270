"""Grid part: the base class of the sections of grid.yaml."""

import ast
import inspect
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel, ConfigDict


class GridPart(BaseModel):
    """A mapping of grid.yaml: immutable, and without unknown keys."""

    # Only the validator of the whole file is built, which saves each command time.
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, defer_build=True)


def attribute_docstring(model: type[BaseModel], name: str) -> str:
    """Return the docstring of a field, for an error message; empty if it has none.

    pydantic's `use_attribute_docstrings` would read the source of every model whenever a command starts, which takes a
    fifth of its processor time until the first call of AWS.
    """
    for owner in model.__mro__:
        if name in inspect.get_annotations(owner):
            (definition,) = ast.parse(dedent(inspect.getsource(owner))).body
            for field, text in pairwise(getattr(definition, "body", [])):
                is_field = isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == name
                if is_field and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                    return inspect.cleandoc(str(text.value.value))
    return ""
