"""E17: children that copy a line's data to its Region are killed before and after every call."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from localcloud.faults.plan import CallFault
from traingrid import names
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.ledger.moves import Moves
from verification.faults.account import ACCOUNT
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import KILLS, kills_of, otherwise_ended, states
from verification.faults.races import SHUFFLED, count_created
from verification.faults.submissions import REGIONS, Submission
from verification.faults.table import Outcome

_LINES_AT_ONCE = 12
_CALLS = 56
"""Upper bound of the calls of a child that copies six objects and creates a training job; later kills do not happen."""
_AGAIN = 0.3
"""Share of the children whose next attempt is killed as well, at any of its calls."""
_SMALL = tuple(f"{channel}/{number}" for channel in ("train", "validation") for number in range(3))
_PARTS = (b"x" * 5 * 1024**2, b"the end")
"""The parts of a further object in every fourth folder. S3's minimum of a part is 5 MiB."""
_WRITES = ("CopyObject", "CompleteMultipartUpload")

_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A line of a manifest with a copy: its folders, and the names of its objects."""

    source: S3Uri
    target: S3Uri
    objects: tuple[str, ...]
    region: str

    @property
    def row(self) -> str:
        """The line of the manifest."""
        return f"{self.region},{self.target},{self.source}\n"


def copied(grid: FaultyGrid, lines: int) -> Outcome:
    """E17: kill child `i` before or after its call `k`, for every `k`, while it copies its line's data.

    Every line has two children, which Batch retries and which compete for the copy. Each line must be trained once,
    after all of its objects have been written, each of them exactly once.

    Args:
        lines: Number of lines. With 112, two children are killed before and after each call.
    """
    chance, struck = random.Random(grid.seed), list[str]()  # noqa: S311 - moments, no secrets
    submitted: list[tuple[Submission, list[_Line]]] = []
    boundaries = itertools.islice(_boundaries(lines), lines)
    for start in range(0, lines, _LINES_AT_ONCE):
        some = [_line(start + index) for index in range(min(_LINES_AT_ONCE, lines - start))]
        kills = _kills(list(itertools.islice(boundaries, len(some))), chance)
        grid.plan(stub_seconds=0.5, calls=(*kills, *SHUFFLED))
        with grid.children_at_once(2 * _LINES_AT_ONCE):
            manifest = grid.put("".join(("region,s3_uri,copy_from\n", *(line.row for line in some))).encode())
            submission = grid.submitted(grid.report(manifest)["submission"])
            again = grid.submit_again(submission)
            settled(grid, [submission])
            grid.at_rest(again)
        submitted.append((submission, some))
        struck += kills_of(grid)
    submissions = [submission for submission, _ in submitted]
    ids = [submission.id for submission in submissions]
    violations = (violation for submission, some in submitted for violation in _violations(grid, submission, some))
    return Outcome(
        volume=f"{len(struck)} kills, {lines} lines",
        struck=len(struck),
        violations=[*grid.audit(*ids), *otherwise_ended(grid, submissions, {"Completed"}), *violations],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "states": states(grid, submissions),
            "training_jobs": count_created(grid, ids),
        },
    )


def _line(index: int) -> _Line:
    """Upload the data of a line, and return the line."""
    folder, source, target = f"moves/{next(_numbers)}", REGIONS[index % 2], REGIONS[(index + 1) % 2]
    uri, s3 = S3Uri(_bucket(source), folder), client("s3", source)
    for name in _SMALL:
        s3.put_object(Bucket=uri.bucket, Key=(uri / name).key, Body=name.encode())
    objects = _SMALL
    if index % 4 == 0:
        objects = (*_SMALL, "validation/parts")
        _upload_in_parts(s3, uri / objects[-1])
    return _Line(source=uri, target=S3Uri(_bucket(target), folder), objects=objects, region=target)


def _upload_in_parts(s3: Any, uri: S3Uri) -> None:
    """Upload an object that has only a checksum of its parts, so that it is copied in parts as well."""
    where = {"Bucket": uri.bucket, "Key": uri.key}
    upload = s3.create_multipart_upload(**where, ChecksumAlgorithm="CRC32")["UploadId"]
    parts = [
        {"PartNumber": number, "ETag": s3.upload_part(**where, UploadId=upload, PartNumber=number, Body=body)["ETag"]}
        for number, body in enumerate(_PARTS, start=1)
    ]
    s3.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})


def _boundaries(kills: int) -> Iterator[dict[str, Any]]:
    """Yield the boundary at which each child is killed; of more boundaries than kills, evenly spaced ones."""
    every = [{"effect": effect, "nth": nth} for nth in range(1, _CALLS + 1) for effect in KILLS]
    distance = max(1.0, len(every) / kills)
    for number in itertools.count():
        yield every[int(number * distance) % len(every)]


def _kills(boundaries: list[dict[str, Any]], chance: random.Random) -> Iterator[CallFault]:
    for index, boundary in enumerate(boundaries):
        yield CallFault(**boundary, caller=f"batch/*:{index}/1", host_lost=chance.random() < 0.5)
        if chance.random() < _AGAIN:
            effect, nth = chance.choice(KILLS), chance.randint(1, _CALLS)
            yield CallFault(effect=effect, nth=nth, caller=f"batch/*:{index}/2", host_lost=chance.random() < 0.5)


def _violations(grid: FaultyGrid, submission: Submission, lines: list[_Line]) -> Iterator[Violation]:
    """Yield a violation for each copy that is incomplete, repeated, different, unrecorded, or used too early."""
    moves = Moves(grid.plane.deployment.table, grid.plane.deployment.grid.home)
    for index, line in enumerate(lines):
        keys = Counter((line.target / name).key for name in line.objects)
        writes = list(_writes(grid, line))
        item, writes_by_key = moves.find(str(line.target)), Counter(key for _, key in writes)
        began = _created_at(grid, f"{submission.id}-{index}-1")
        problems = {
            f"has the writes {dict(writes_by_key)}, not one of each object": writes_by_key != keys,
            "was trained on before its last object was written": any(seq > began for seq, _ in writes),
            "has another content than its source": _content(line.source, line) != _content(line.target, line),
            "is not recorded as copied": item is None or item.state != "copied",
        }
        for problem in (sentence for sentence, met in problems.items() if met):
            text = f"the copy {line.target} {problem}"
            yield Violation(invariant="E17", kind="other", submission=submission.id, what=text)


def _writes(grid: FaultyGrid, line: _Line) -> Iterator[tuple[int, str]]:
    """Yield the number in the record, and the key, of each write of an object of a target.

    Completing the same upload again writes nothing
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html).
    """
    uploads = set[str]()
    for action in _WRITES:
        for entry in grid.cloud.record.entries("s3", action):
            where = entry["parameters"]
            mine = where["Bucket"] == line.target.bucket and where["Key"].startswith(f"{line.target.key}/")
            upload = where.get("uploadId", "")  # the record has the names of query parameters
            if mine and upload not in uploads:
                yield entry["seq"], where["Key"]
            uploads |= {upload} - {""}


def _created_at(grid: FaultyGrid, name: str) -> int:
    """Return the number in the record of the first creation of a training job; 0 if it was never created."""
    entries = grid.cloud.record.entries("sagemaker", "CreateTrainingJob")
    return next((entry["seq"] for entry in entries if entry["parameters"]["TrainingJobName"].endswith(name)), 0)


def _content(folder: S3Uri, line: _Line) -> dict[str, str]:
    s3 = client("s3", line.region)
    listed = s3.list_objects_v2(Bucket=folder.bucket, Prefix=f"{folder.key}/").get("Contents", [])
    return {entry["Key"].removeprefix(folder.key): entry["ETag"] for entry in listed}


def _bucket(region: str) -> str:
    return names.data_bucket("grid", ACCOUNT, region)
