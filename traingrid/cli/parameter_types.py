"""Parameter types: ids of submissions and names of Regions, which the shell completes.

Both accept any text: the commands check it, and their errors state the next step.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from botocore.exceptions import BotoCoreError, ClientError

from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.shell_completion import CompletionItem

_MAX_SUBMISSIONS = 50
"""The number of submissions to choose from: the newest ones."""


class _Completed(click.ParamType[str]):
    """A text that the shell completes with the choices of a grid; with none if they cannot be read."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the choices that begin with the text."""
        del param
        grid_file = ctx.find_root().params.get("grid_file") or Path("grid.yaml")
        try:
            choices = list(self.choices(Path(grid_file)))
        except (TraingridError, BotoCoreError, ClientError, OSError):
            return []  # the shell shows the output of a completion in the middle of the command
        from click.shell_completion import CompletionItem  # noqa: PLC0415  # only a completion needs it

        return [CompletionItem(choice) for choice in choices if choice and choice.startswith(incomplete)]

    def choices(self, grid_file: Path) -> Iterator[str]:
        """Yield the choices."""
        raise NotImplementedError


class _SubmissionId(_Completed):
    name = "submission"

    def choices(self, grid_file: Path) -> Iterator[str]:
        from traingrid.api.control_plane import ControlPlane  # noqa: PLC0415  # as above

        for item in islice(ControlPlane.of(grid_file).ledger.submissions(), _MAX_SUBMISSIONS):
            yield item.submission


class _RegionName(_Completed):
    name = "region"

    def choices(self, grid_file: Path) -> Iterator[str]:
        from traingrid.grid.file import load_grid  # noqa: PLC0415  # as above

        yield from load_grid(grid_file).regions


SUBMISSION = _SubmissionId()
REGION = _RegionName()
