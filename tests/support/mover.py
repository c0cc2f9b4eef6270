"""Mover: copies a job's data with moto's S3 before its training job is created."""

from typing import Any

from tests.support.copies import FEW_PARTS, SOURCE_REGION, Calls, folder_copy, folders, stored
from traingrid.child.attempt import Attempt
from traingrid.child.data_copy import DataCopy
from traingrid.ledger.moves import Moves


class Mover:
    """Copies with moto's S3; `verified` has the targets' contents at each return of True."""

    def __init__(self, s3: Any, moves: Moves, calls: Calls | None = None) -> None:
        self.s3, self.moves, self.calls = s3, moves, calls or Calls()
        self.verified: list[dict[str, bytes]] = []
        self.last: DataCopy | None = None

    def __call__(self, attempt: Attempt) -> bool:
        both = folders(self.calls)
        self.last = copy = DataCopy(
            attempt=attempt,
            moves=self.calls.of(self.moves),
            folders=both,
            from_region=SOURCE_REGION,
            begin=lambda: folder_copy(both, sizes=FEW_PARTS),
        )
        done = copy.run()
        if done:
            self.verified.append(stored(self.s3))
        return done
