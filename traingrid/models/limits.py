"""Model limits: bounds the models with which a submission begins, and their copies, before any cost.

AWS bills every copy between Regions, so that a manifest whose lines name many large models could cause any cost. With
these limits the copies of one submission have at most 5 TB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.manifest.errors import file_error
from traingrid.manifest.problem import RefusedError
from traingrid.text import byte_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.manifest.line import Line

MAX_MODELS = 100
"""The maximum number of different initial models of a submission."""
MAX_COPIES = 100
"""The maximum number of copies of initial models between Regions that a submission needs: one for each model and
Region, including the Regions of replicas."""
MAX_COPIED_BYTES = 50 * 10**9
"""The maximum size of an archive that is copied to another Region."""


def check_models(lines: Sequence[Line]) -> None:
    """Check the number of different models, before the ledger is read for each of them.

    Raises:
        ManifestError: There are more than `MAX_MODELS`.
    """
    models = {str(model) for line in lines if (model := line.settings.init_from)}
    if len(models) > MAX_MODELS:
        reason = f"its lines begin with {len(models):,} different models, and those of a submission with at most "
        raise file_error(f"{reason}{MAX_MODELS}", "Split the file.")


def check_copies(lines: Sequence[Line]) -> None:
    """Check the number of copies between Regions.

    Args:
        lines: The lines, with the Region of each model.

    Raises:
        ManifestError: The lines need more than `MAX_COPIES`.
    """
    copies: set[tuple[str, str]] = set()
    for line in lines:
        model = line.settings.init_from
        if model is not None:
            copies |= {(str(model), region) for region in line.places if region != model.region}
    if len(copies) > MAX_COPIES:
        reason = f"its lines need {len(copies):,} copies of models to other Regions, and those of a submission at most "
        step = "Train in the Regions of the models, with fewer replicas, or split the file."
        raise file_error(f"{reason}{MAX_COPIES}", step)


def copy_size_problem(size: int, region: str) -> RefusedError | None:
    """Return an error for a model that is too large to be copied to another Region.

    Args:
        size: The size of its archive in bytes.
        region: The Region of the model.
    """
    if size <= MAX_COPIED_BYTES:
        return None
    sizes = f"its archive has {byte_size(size)}, and models of at most {byte_size(MAX_COPIED_BYTES)}"
    return RefusedError(f"{sizes} are copied to another Region", f"Train in {region}.")
