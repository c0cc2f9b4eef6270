"""E3: events that are delivered many times, late and out of order."""

from collections import Counter

from localcloud.faults.plan import EventFault
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.table import Outcome


def duplicates(grid: FaultyGrid, copies: int, manifests: int, copies_each: int) -> Outcome:
    """E3: deliver one manifest's event `copies` times concurrently, and others several times, late and out of order.

    Meanwhile SageMaker's events are delivered three times and out of order.
    """
    shuffled = EventFault(source="aws.sagemaker", duplicate=1.0, copies=3, delay=0.5, reorder=0.3, seconds=2.0)
    grid.plan(stub_seconds=0.5, events=(EventFault(source="aws.s3", duplicate=1.0, copies=copies), shuffled))
    ids = [grid.upload(5)]
    late = EventFault(source="aws.s3", duplicate=1.0, copies=copies_each, delay=0.6, reorder=0.3, seconds=2.0)
    grid.plan(stub_seconds=0.5, events=(late, shuffled))
    ids += [grid.upload(1) for _ in range(manifests)]
    # The intake's own reports are objects too; repeating their events as often would prove nothing more.
    grid.plan(stub_seconds=0.5, events=(shuffled,))
    submissions = [grid.submitted(submission) for submission in ids]
    settled(grid, submissions)
    grid.quiet()
    arrays = Counter(
        entry["parameters"]["jobName"]
        for entry in grid.cloud.record.entries("batch", "SubmitJob")
        if entry["parameters"]["jobName"].rpartition("-")[2] in ids
    )
    return Outcome(
        volume=f"1 x {copies}, {manifests} x {copies_each} events",
        violations=grid.audit(*ids),
        facts={
            "manifests": len(ids),
            "submit_job_accepted": sum(arrays.values()),
            "most_for_one": max(arrays.values()),
        },
    )
