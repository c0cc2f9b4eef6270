"""Folder layouts: the channels that the data folders of lines have now, as a child would find them."""

from __future__ import annotations

import logging
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.data_layout import (
    Layout,
    LayoutError,
    check_formats,
    check_mounts,
    check_streams,
    folder_of,
    layout_of,
)
from traingrid.job.job import job_in_region
from traingrid.manifest.errors import LineError
from traingrid.manifest.line import NO_SUBMISSION, job_of_line
from traingrid.manifest.problem import literal
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.manifest.line import Line

logger = logging.getLogger(__name__)
MAX_LINES = 1_000
"""The number of lines of a manifest whose folders `traingrid submit` lists; children list those of all."""
_THREADS = 16


class FolderLayouts:
    """The layouts of data folders. Each folder is listed once, with the permissions of a user."""

    def __init__(self, deployment: Deployment) -> None:
        self._regions = deployment.bucket_regions()
        self._storages = cache(lambda region: Storage(region, role=deployment.acting_role_in(region)))
        self._layouts = cache(self._find)

    def of(self, job: Job) -> Layout:
        """Return the layout of the folder of a job in its Region; of a folder that will be copied, that of the source.

        Raises:
            LayoutError: The child would fail.
            ClientError: The caller may not list the folder.
        """
        folder = S3Uri.parse(job.copy_from) if job.copy_from else folder_of(job.inputs)
        region = self._regions.get(folder.bucket, job.region)
        layout = self._layouts(region, folder, tuple(job.inputs))
        if isinstance(layout, Exception):
            raise layout
        check_mounts(layout, job.inputs, job.backends)
        if not job.copy_from:
            check_streams(self._storages(region), job, layout.inputs(job.inputs))
            check_formats(self._storages(region), job, layout.inputs(job.inputs))
        return layout

    def _find(self, region: str, folder: S3Uri, names: tuple[str, ...]) -> Layout | LayoutError | ClientError:
        try:
            return layout_of(self._storages(region), folder, names)
        except (LayoutError, ClientError) as error:
            return error


def wrong_folders(lines: Sequence[Line], deployment: Deployment) -> list[LineError]:
    """Return the errors of the first lines whose data folders do not determine their channels.

    A folder that the caller may not list, or cannot list now, is not checked.
    """
    layouts = FolderLayouts(deployment)
    with_folder = islice((line for line in lines if line.data), MAX_LINES)
    errors_by_line = map_in_order(partial(_errors, deployment, layouts), with_folder, _THREADS)
    return [error for errors in errors_by_line for error in errors]


def _errors(deployment: Deployment, layouts: FolderLayouts, line: Line) -> list[LineError]:
    return list(_errors_in_each_region(layouts, line, job_of_line(line, 0, deployment, NO_SUBMISSION)))


def _errors_in_each_region(layouts: FolderLayouts, line: Line, job: Job) -> Iterator[LineError]:
    """Yield an error for each Region in which the folder of a job does not show its channels."""
    if not job.by_layout:
        return
    for region in job.regions:
        field = "s3_uri" if region == job.region else f"replicas.{region}"
        if job.copy_from:
            field = "copy_from"
        regional = job_in_region(job, region)
        try:
            layouts.of(regional)
        except LayoutError as error:
            folder = job.copy_from or str(folder_of(regional.inputs))
            reason, step = error.what.removesuffix("."), error.next_step
            yield LineError(line=line.number, field=field, value=literal(folder), reason=reason, next_step=step)
        except (BotoCoreError, ClientError) as error:
            logger.info("the data of line %d in %s was not checked: %s", line.number, region, error)
