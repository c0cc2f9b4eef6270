"""Recipe: identifies jobs that train the same program in the same way, regardless of Region and data."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traingrid.job.job import Job

_TAG = re.compile(r"(@sha256:[0-9a-f]{64}|:[^/:]+)$")
_REGION = re.compile(r"\b[a-z]{2}(-[a-z]+)+-\d+\b")


def recipe_of(job: Job) -> str:
    """Return an identifier of a job's recipe: 16 hexadecimal digits.

    Jobs have the same recipe if they have the same image or algorithm, regardless of Region and tag, the same program
    of `source`, hyperparameters, number of instances and processes, launcher, and input mode. The instance type and the
    data are not part of the recipe.
    """
    image = _REGION.sub("", _TAG.sub("", job.image) or job.algorithm)
    modes = sorted({channel.input_mode for channel in job.inputs.values()})
    parts = [image, job.entry_point, job.hyperparameters, job.instance_count, job.processes_per_host, modes]
    if job.launcher != "mpi":  # identifiers of jobs that were recorded before the field existed must stay valid
        parts.append(job.launcher)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
