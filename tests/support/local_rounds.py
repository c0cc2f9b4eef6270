"""Local rounds: rounds of a grid in memory, with their journal, jobs and merges."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from traingrid.job.state import JobState
from traingrid.manifest.json_lines import json_lines
from traingrid.rounds.journal import Contribution, GlobalModel, LeftOut, RoundLines, RoundMerge
from traingrid.submission.journal import Begun, JournalEntry, Submitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.local_page import LocalGrid
    from traingrid.job.job import Job

LOCAL_TOP1 = (0.25, 0.3, 0.35, 0.2)
SIZE = 10**6


def train_rounds(local: LocalGrid, top1s: Sequence[float], name: str = "cells", *, missing: int = 0) -> list[str]:
    """Record rounds that have ended, and one that trains; return the submissions in their order.

    Args:
        top1s: The validation_top1 of the global models.
        missing: The number of a round without its last Region; 0 for none.
    """
    bucket = local.deployment.manifest_bucket
    entries: list[JournalEntry] = [Begun(spec={"epochs": 2})]
    submissions: list[str] = []
    for number in range(1, len(top1s) + 2):
        submission, merge = f"aaaa{number:04x}", f"bbbb{number:04x}"
        uri = f"s3://{bucket}/manifests/rounds/{name}/{len(entries):06d}-abc.csv"
        began = int(time.time()) - 600 * (len(top1s) + 2 - number)
        jobs = local.submit([f"{name}-{number:03d}-{line}" for line in range(4)], submission=submission, manifest=uri)
        manifest = json_lines([{"region": job.region} for job in jobs])
        entries += [
            RoundLines(number=number, began_at=began, manifest=manifest),
            Submitted(batch=len(entries), submission=submission),
        ]
        submissions.append(submission)
        if number > len(top1s):
            for job in jobs[:2]:
                local.train(job, submission, epoch=1, validation_top1=0.9)
            break
        absent = {3} if number == missing else set()
        for job in jobs:
            state = JobState.FAILED if job.index in absent else JobState.COMPLETED
            facts = {"training_started_at": began + 20, "training_seconds": 300, "metrics": {"validation_top1": 0.99}}
            local.open(job, submission, state=state, artifact="s3://b/model.tar.gz", **facts)
        (merging,) = local.submit(
            [f"{name}-{number:03d}-merge"],
            submission=merge,
            manifest=f"s3://{bucket}/manifests/rounds/{name}/merge-{number:03d}-abc.csv",
        )
        parts = {f"part_{position}_top1": LOCAL_TOP1[job.index] for position, job in enumerate(_merged(jobs, absent))}
        metrics = {"validation_top1": top1s[number - 1], "best_part_top1": max(parts.values()), **parts}
        facts = {"training_started_at": began + 400, "training_seconds": 60, "metrics": metrics}
        local.open(merging, merge, state=JobState.COMPLETED, artifact="s3://b/model.tar.gz", **facts)
        contributions = tuple(
            Contribution(region=job.region, index=job.index, artifact=f"s3://b/{submission}", etag="1", size=SIZE)
            for job in _merged(jobs, absent)
        )
        entries += [
            RoundMerge(
                number=number,
                contributions=contributions,
                left_out=tuple(
                    LeftOut(region=jobs[index].region, index=index, reason="is Failed: no capacity") for index in absent
                ),
                manifest=json_lines([{"region": merging.region}]),
                key="",
            ),
            Submitted(batch=len(entries), submission=merge),
            GlobalModel(
                number=number,
                model=f"{merge}/0",
                region=merging.region,
                artifact=f"s3://b/{merge}",
                etag="1",
                size=SIZE,
                metrics=metrics,
            ),
        ]
        submissions.append(merge)
    for position, entry in enumerate(entries):
        uri = f"s3://{bucket}/rounds/{name}/{position:06d}.json"
        local.storage.objects[uri] = entry.model_dump_json().encode()
    return submissions


def _merged(jobs: Sequence[Job], absent: set[int]) -> list[Job]:
    return [job for job in jobs if job.index not in absent]
