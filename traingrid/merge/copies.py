"""Merge copies: records the copies of models to merge in the ledger, so that `audit` and `data prune` know them.

A copy has the state `copying` until its merge is submitted. While it changes, and for ten minutes afterwards, it does
not count as unneeded, and then the open job of the merge uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traingrid.errors import TraingridError
from traingrid.ledger.damage import Damaged, warn
from traingrid.ledger.moves import MoveItem
from traingrid.ledger.timestamps import now

if TYPE_CHECKING:
    from traingrid.aws.s3_copy import ObjectHead
    from traingrid.aws.s3_uri import S3Uri
    from traingrid.ledger.moves import Moves
    from traingrid.merge.models import Model

_TRIES = 5
"""More changes by other processes than that, between a read and a write, do not occur."""


@dataclass(frozen=True, kw_only=True)
class ModelCopy:
    """A model, and its copy in the Region of the merge.

    Attributes:
        head: The facts about its archive.
    """

    model: Model
    head: ObjectHead
    target: S3Uri


@dataclass(frozen=True, kw_only=True)
class MergeCopies:
    """The ledger's items of the copies of one merge.

    Attributes:
        moves: The ledger's items of copies.
    """

    moves: Moves
    region: str

    def begin(self, copy: ModelCopy, *, is_missing: bool) -> None:
        """Record that a model is being copied, before its object is written.

        Args:
            is_missing: Whether the object does not exist.

        Raises:
            TraingridError: The copy is being removed.
        """
        for _ in range(_TRIES):
            item = self.moves.find(str(copy.target))
            if item is None:
                if self.moves.add(self._first(copy, is_missing=is_missing)):
                    return
            elif item.state == "pruning":
                raise _removed(copy, "is being removed by `traingrid data prune`")
            elif self.moves.change(item, _begun(item, copy, is_missing=is_missing)):
                return
        raise _removed(copy, "is being changed by other commands")

    def hold(self, copy: ModelCopy) -> None:
        """Record that a copy is complete and its merge about to be submitted.

        Raises:
            TraingridError: The copy was removed meanwhile.
        """
        item = self.moves.find(str(copy.target))
        if item is None or item.state in ("pruning", "pruned"):
            raise _removed(copy, "was removed by `traingrid data prune`")
        self.moves.change(item, item)

    def finish(self, copy: ModelCopy, submission: str) -> None:
        """Record that a copy is complete and that its merge was submitted.

        Args:
            submission: The submission of the merge, to which the transfer is attributed unless an earlier one has made
                it.
        """
        item = self.moves.look_up(str(copy.target))
        if isinstance(item, Damaged):  # the merge is submitted, so this is no error of the command
            warn(item)
            return
        if item is None or item.state != "copying":  # another command has recorded it
            return
        job = f"{submission}/0" if item.job == _trained(copy) else item.job
        done = replace(item, state="copied", job=job, copied_objects=1, copied_bytes=copy.head.size)
        self.moves.change(item, done)

    def _first(self, copy: ModelCopy, *, is_missing: bool) -> MoveItem:
        size = copy.head.size
        return MoveItem(
            target=str(copy.target),
            source=str(copy.model.archive),
            region=self.region,
            from_region=copy.model.job.region,
            is_object=True,
            job=_trained(copy),
            began_at=now(),
            objects=1,
            bytes=size,
            missing_bytes=size if is_missing else 0,
        )


def _begun(item: MoveItem, copy: ModelCopy, *, is_missing: bool) -> MoveItem:
    """Return the item of a copy that this command makes again, or uses."""
    if not is_missing:
        return replace(item, state="copying")
    size = copy.head.size
    return replace(
        item,
        state="copying",
        job=_trained(copy),
        earlier=item.transferred_before(size),
        missing_bytes=size,
        copied_objects=0,
        copied_bytes=0,
    )


def _trained(copy: ModelCopy) -> str:
    """Return the job that trained a model, to which its copy is attributed until the merge has a submission."""
    return f"{copy.model.submission}/{copy.model.job.index}"


def _removed(copy: ModelCopy, text: str) -> TraingridError:
    step = "Run the command again once the removal has ended; `traingrid audit` lists an interrupted one."
    return TraingridError(f"The copy {copy.target} of the model of {copy.model} {text}.", step)
