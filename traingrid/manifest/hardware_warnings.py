"""Warnings: lines whose image does not suit their hardware, or whose residency does not bind their code.

For hardware, only images that the deployment builds are examined. The content of any other image is unknown, so lines
with one get no such warning.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.grid.confinement import NEXT_STEP, RULE, has_internet
from traingrid.manifest.line import hyperparameters, is_algorithm
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from traingrid.grid.deployment import Deployment
    from traingrid.grid.image import Image
    from traingrid.grid.model import GridSettings
    from traingrid.job.job import Job
    from traingrid.manifest.line import Line

# The types for which the image's `train` uses EFA (training_container/launcher/gpu_network.py). A test compares both
# with each other and with EC2's list.
_WITH_EFA = re.compile(
    r"ml\.(?:g4dn\.(?:8|12)xlarge|g5\.48xlarge|p3dn\.24xlarge|p4de?\.24xlarge|p5\w*\.\d+xlarge|p6e?-\w+\.\d+xlarge)"
)
# Types with GPUs of compute capability 9.0 and higher: H100 and H200 (p5), Blackwell (p6, g7, g7e). Source:
# https://developer.nvidia.com/cuda-gpus. TensorFlow 2.15 has kernels up to 8.0, which run on all 8.x, and the driver
# compiles the others from PTX: https://github.com/tensorflow/tensorflow/issues/62320.
_NEWER_THAN_TENSORFLOW = re.compile(r"ml\.(?:p5\w*|p6e?-\w+|g7e?)\.")
_KEEP_KERNELS = "sagemaker_keep_kernels"
_SHOWN_LINES = 5


def has_efa(instance_type: str) -> bool:
    """Return True if hosts of an instance type have an adapter for EFA, for example of ml.p4d.24xlarge."""
    return _WITH_EFA.fullmatch(instance_type) is not None


def is_newer_than_tensorflow(instance_type: str) -> bool:
    """Return True if TensorFlow 2.15 has no kernels for the GPUs of an instance type, for example of ml.p5.48xlarge."""
    return _NEWER_THAN_TENSORFLOW.match(instance_type) is not None


def line_warnings(line: Line, grid: GridSettings) -> tuple[str, ...]:
    """Return the warnings of one line, each a sentence without the line's number."""
    residency = line.settings.residency or grid.regions[line.region].residency
    about_data = (f"{RULE}. {NEXT_STEP}.",) if residency and has_internet(grid, line.region) else ()
    return (*about_data, *_hardware_warnings(line, grid))


def _hardware_warnings(line: Line, grid: GridSettings) -> tuple[str, ...]:
    settings = line.settings
    defaults = settings.applied_to(grid.job)
    alias = defaults.image
    if alias not in grid.images or is_algorithm(settings, grid):
        return ()
    use = _ImageUse(
        alias=alias,
        image=grid.images[alias],
        instance_type=defaults.instance_type,
        hosts=defaults.instance_count,
        has_checkpoints=bool(settings.spot if settings.checkpoints is None else settings.checkpoints),
        is_script=settings.source is not None,
        hyperparameters=hyperparameters(settings, grid),
    )
    return tuple(use.warnings())


def manifest_warnings(lines: Iterable[Line], grid: GridSettings) -> Iterator[str]:
    """Yield the warnings of a manifest as sentences."""
    return warning_sentences((line.number, line_warnings(line, grid)) for line in lines)


def jobs_warnings(jobs: Iterable[Job], deployment: Deployment) -> Iterator[str]:
    """Yield the warnings of submitted jobs as sentences; none for jobs with an image of an earlier deployment."""
    grid = deployment.grid
    built = {
        deployment.image_uri(alias, region): alias
        for alias, image in grid.images.items()
        for region in grid.regions
        if image.build
    }
    uses = (
        (
            job.line,
            _ImageUse(
                alias=built[job.image],
                image=grid.images[built[job.image]],
                instance_type=job.instance_type,
                hosts=job.instance_count,
                has_checkpoints=bool(job.checkpoints),
                is_script=bool(job.source),
                hyperparameters=job.hyperparameters,
            ),
        )
        for job in jobs
        if job.image in built
    )
    return warning_sentences((number, use.warnings()) for number, use in uses)


@dataclass(frozen=True, kw_only=True)
class _ImageUse:
    """The use of an image of the grid by a line or a job."""

    alias: str
    image: Image
    instance_type: str
    hosts: int
    has_checkpoints: bool
    is_script: bool
    hyperparameters: Mapping[str, str]

    def warnings(self) -> Iterator[str]:
        """Yield a warning for each way in which the image does not suit the hardware."""
        if self.hosts > 1 and self.image.has_efa is False and has_efa(self.instance_type):
            yield (
                f"{self.instance_type} has EFA, but the image {self.alias} is built without it (efa: none in "
                f"grid.yaml), so its {counted(self.hosts, 'host')} would communicate over TCP."
            )
        if _is_tensorflow(self.image) and is_newer_than_tensorflow(self.instance_type):
            yield (
                f"TensorFlow 2.15 of the image {self.alias} has no kernels for the GPUs of {self.instance_type}: the "
                f"first start compiles them, which may take 30 minutes or longer, and {self._later_starts_clause}."
            )

    @property
    def _later_starts_clause(self) -> str:
        """The clause about later starts: if they compile the kernels (training_container/launcher/kernel_cache.py)."""
        if not self.has_checkpoints:
            return "so does every start without checkpoints"
        default = "false" if self.is_script else "true"  # the folder of checkpoints belongs to the script
        if self.hyperparameters.get(_KEEP_KERNELS, default).strip().lower() != "true":
            return f"so does every start without the hyperparameter {_KEEP_KERNELS}: true"
        return "later starts use the kernels beside its checkpoints"


def warning_sentences(warnings: Iterable[tuple[int, Iterable[str]]], label: str = "Warning") -> Iterator[str]:
    """Yield a sentence for each warning, with the lines that have it.

    Args:
        warnings: The number of each line, and its warnings.
        label: The beginning of each sentence.
    """
    lines: dict[str, list[int]] = defaultdict(list)
    for number, texts in warnings:
        for text in texts:
            lines[text].append(number)
    for text, numbers in lines.items():
        yield f"{label}: {_line_numbers(sorted(numbers))}: {text}"


def _is_tensorflow(image: Image) -> bool:
    return image.build is not None and image.target == "gpu"


def _line_numbers(numbers: list[int]) -> str:
    first_numbers = ", ".join(map(str, numbers[:_SHOWN_LINES]))
    more = len(numbers) - _SHOWN_LINES
    return f"line{'s' * (len(numbers) > 1)} {first_numbers}" + (f" and {more:,} more" if more > 0 else "")
