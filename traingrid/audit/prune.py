"""Prune: removes a copy that no job needs, without removing an object that is not part of the copy.

The order makes this safe against a child that starts meanwhile. First, one conditional write changes the state of the
copy to `pruning`, in which no child begins to train on it. Only then the jobs are read again: a child that saw the copy
before that write belongs to a job that is open now. A child that comes later waits until the copy is removed, and then
copies the data again.

A command that is interrupted leaves the state `pruning`; the next one takes the removal over and continues.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from traingrid import names
from traingrid.aws.s3_copy import Listed, ObjectHead
from traingrid.aws.s3_delete import Deleter
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.ledger.damage import readable, warn
from traingrid.ledger.datasets import DatasetItem, Datasets
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.threads import Workers
from traingrid.transfers.listing import Folders, named_objects
from traingrid.transfers.verification import evidence, mark_of

Result = Literal["pruned", "kept", "needed", "changed"]
"""pruned: its objects were deleted. kept: no object could be deleted. needed: a job uses it now. changed: another
process changed the copy after it was listed."""
_THREADS, _AT_ONCE, _NAMED, _TRIES = 16, 1000, 3, 10


@dataclass(kw_only=True)
class PruneReport:
    """The result of a prune.

    Attributes:
        result: The result.
        objects: The number of deleted objects.
        bytes: Their size in bytes.
        kept: The number of objects that were kept, because the copy did not write them, or the source lacks them.
        named: The names of some of them.
        versioned: True if the bucket has kept previous versions of deleted objects.
        user: The job that needs the copy now.
    """

    result: Result
    objects: int = 0
    bytes: int = 0
    kept: int = 0
    named: list[str] = field(default_factory=list)
    versioned: bool = False
    user: str = ""


@dataclass(kw_only=True)
class Prune:
    """Removes one copy.

    Attributes:
        item: The copy as the caller has read it.
        moves: The ledger's items of copies.
        datasets: The registered datasets, which may have the copy as a replica.
        folders: The source and the copy.
        deleter: Deletes objects of the copy.
        user_now: Reads the ledger, and returns a job that needs the copy; empty if there is none.
        owner: A name of this command that no other process has.
        is_whole: If true, nothing is deleted once the folder has other objects, such as the checkpoints of a training
            that has continued in it, which may need the objects of the copy. Then it is no copy any more.
    """

    item: MoveItem
    moves: Moves
    datasets: Datasets
    folders: Folders
    deleter: Deleter
    user_now: Callable[[], str]
    owner: str
    is_whole: bool = False
    _claimed_copy: MoveItem = field(init=False)
    _report: PruneReport = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def run(self) -> PruneReport:
        """Remove the copy, and return the removed bytes, or the reason why it stays.

        Raises:
            TraingridError: Another command has taken over a removal that this one had begun.
            ClientError: S3 or the ledger refused a call; running the command again continues.
        """
        self._report = PruneReport(result="pruned")
        claim = replace(self.item, state="pruning", owner=self.owner, missing_bytes=self.item.own_bytes)
        claimed = self.moves.change(self.item, claim) or self._item_if_own()
        if claimed is None:
            return PruneReport(result="changed")
        self._claimed_copy = claimed
        user = self.user_now()
        if user and self.item.state != "pruning":  # a removal that has begun must end: the copy is incomplete
            self._give_back()
            return PruneReport(result="needed", user=user)
        return self._remove()

    def _remove(self) -> PruneReport:
        is_continued = (
            self.is_whole and self.item.state != "pruning" and not all(map(self._is_own, self._copied_objects()))
        )
        if is_continued:
            self._report.result = "kept"
        elif self._delete_marker():
            self._unregister()
            pairs = self._copied_objects()
            while batch := list(islice(pairs, _AT_ONCE)):
                self._renew()
                Workers(self._delete, batch, _THREADS).run()
        if not is_continued and self._report.kept and not self._report.objects and self.item.state != "pruning":
            self._give_back()
            self._report.result = "kept"
            return self._report
        ended_item = replace(
            self._claimed_copy, state="pruned", copied_objects=0, copied_bytes=0, verified={}, target_digest=""
        )
        if not self.moves.change(self._claimed_copy, ended_item):
            item = self.moves.find(self.item.target)
            if item is None or item.owner != self.owner or item.state != "pruned":
                raise self._taken_over()
        return self._report

    def _delete_marker(self) -> bool:
        """Delete the marker, which comes first because it registers the folder; return False if it is another one.

        A copy of a single object has none, and the user's permissions for models do not include one.
        """
        if self.folders.names or self.item.is_object:
            return True
        uri = self.folders.target / names.DATASET_MARKER
        object_head = self.folders.target_store.head(uri)
        if object_head is None:
            return True
        is_own = self.item.is_written(object_head.modified_at) and self._is_copy(names.DATASET_MARKER)
        if not is_own or self.deleter.delete(uri, object_head.etag) == "changed":
            self._note_kept(names.DATASET_MARKER)
            return False
        return True

    def _unregister(self) -> None:
        """Remove the copy from the replicas of the registered datasets."""
        for _ in range(_TRIES):
            items = [item for item in readable(self.datasets.all(), warn) if self._is_replica(item)]
            if all(self.datasets.change(item, self._item_without_copy(item)) for item in items):
                return

    def _is_replica(self, item: DatasetItem) -> bool:
        replica = item.replicas.get(self.item.region)
        return replica is not None and replica.uri == self.item.target

    def _item_without_copy(self, item: DatasetItem) -> DatasetItem:
        other_replicas = {region: replica for region, replica in item.replicas.items() if region != self.item.region}
        return replace(item, replicas=other_replicas)

    def _copied_objects(self) -> Iterator[tuple[str, Listed, Listed | None]]:
        """Yield the objects of the copy by name, each with the source's object of that name."""
        if self.item.is_object:
            yield from self._single_pair()
            return
        chosen = self.folders.names
        sources = named_objects(self.folders.source_store, self.folders.source)
        source = next(sources, None)
        for name, target_object in named_objects(self.folders.target_store, self.folders.target):
            if chosen and name not in chosen:  # the copy has not written it
                self._note_kept(name)
                continue
            while source is not None and source[0] < name:
                source = next(sources, None)
            yield name, target_object, source[1] if source is not None and source[0] == name else None

    def _single_pair(self) -> Iterator[tuple[str, Listed, Listed | None]]:
        """Yield the only object of a copy of an object, if it exists, with its source."""
        (source, target) = self._uris("")
        name = self.folders.target.key.rpartition("/")[2]
        source_object = self.folders.source_store.head(source)
        target_object = self.folders.target_store.head(target)
        if target_object:
            yield name, _listed(target, target_object), _listed(source, source_object) if source_object else None

    def _uris(self, name: str) -> tuple[S3Uri, S3Uri]:
        """Return an object of the source and its copy."""
        if self.item.is_object:
            return self.folders.source, self.folders.target
        return self.folders.source / name, self.folders.target / name

    def _delete(self, pair: tuple[str, Listed, Listed | None]) -> None:
        """Delete an object if the copy wrote it, and the source still has the object of which it is a copy."""
        name, target_object, _ = pair
        if not self._is_own(pair):
            self._note_kept(name)
            return
        result = self.deleter.delete(self._uris(name)[1], target_object.etag)
        if result == "changed":
            self._note_kept(name)
            return
        with self._lock:
            self._report.objects += 1
            self._report.bytes += target_object.size
            self._report.versioned |= result == "versioned"

    def _is_own(self, pair: tuple[str, Listed, Listed | None]) -> bool:
        """Return True if the copy wrote an object, and the source still has the object of which it is a copy."""
        name, listed, source = pair
        if source is None or source.size != listed.size or not self.item.is_written(listed.modified_at):
            return False
        return source.etag == listed.etag or self._is_copy(name)

    def _is_copy(self, name: str) -> bool:
        source, target = self._uris(name)
        source_object = self.folders.source_store.head(source)
        target_object = self.folders.target_store.head(target)
        return bool(
            source_object and target_object and evidence(source_object, target_object, mark_of(source, source_object))
        )

    def _note_kept(self, name: str) -> None:
        with self._lock:
            self._report.kept += 1
            if len(self._report.named) < _NAMED:
                self._report.named.append(name)

    def _renew(self) -> None:
        """Check that no other command has taken the removal over."""
        renewed = self.moves.change(self._claimed_copy, self._claimed_copy) or self._item_if_own()
        if renewed is None:
            raise self._taken_over()
        self._claimed_copy = renewed

    def _give_back(self) -> None:
        self.moves.change(self._claimed_copy, self.item)

    def _item_if_own(self) -> MoveItem | None:
        """Return the present item if this command owns it: botocore repeats a write whose reply was lost."""
        item = self.moves.find(self.item.target)
        return item if item and (item.owner, item.state) == (self.owner, "pruning") else None

    def _taken_over(self) -> TraingridError:
        text = f"Another command has taken over the removal of {self.item.target}."
        return TraingridError(text, "Run `traingrid audit`: if it still lists the copy, run the command again.")


def _listed(uri: S3Uri, object_head: ObjectHead) -> Listed:
    return Listed(key=uri.key, size=object_head.size, etag=object_head.etag, modified_at=object_head.modified_at)
