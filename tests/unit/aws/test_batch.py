"""Batch: each array of a submission is submitted once, under a name by which it can be found."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from traingrid.aws.batch import Batch, SubmitFailedError
from traingrid.aws.s3_uri import ObjectVersion
from traingrid.grid.deployment import Deployment

JOBS = ObjectVersion("bucket", "submissions/0123abcd/jobs-2.jsonl", "v1")
LOST = ReadTimeoutError(endpoint_url="https://batch.us-east-1.amazonaws.com")
REFUSED = ClientError({"Error": {"Code": "ClientException", "Message": "disabled"}}, "SubmitJob")


class Queue:
    """A Batch queue that stores jobs, and can lose a reply or refuse a request."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def submit_job(self, **request: Any) -> dict[str, str]:
        if self.error is not REFUSED:
            self.jobs.append(request)
        if self.error:
            raise self.error
        return {"jobId": f"id-{len(self.jobs)}"}

    def get_paginator(self, operation: str) -> "Queue":
        assert operation == "list_jobs"
        return self

    def paginate(self, jobQueue: str, filters: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:  # noqa: N803  # AWS's parameter name
        (only,) = filters
        assert (jobQueue, only["name"]) == ("queue", "JOB_NAME")
        for number, job in enumerate(self.jobs, start=1):
            yield {"jobSummaryList": [{"jobId": f"id-{number}"}] if job["jobName"] in only["values"] else []}


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def batch(aws: None, deployment: Deployment, queue: Queue) -> Batch:
    made = Batch(deployment)
    made._client = made._submit_client = queue  # the transport, not the client code above it
    return made


def test_every_array_has_a_unique_name_and_a_pinned_file(batch: Batch, queue: Queue) -> None:
    batch.submit("0123abcd", JOBS, 10_000)
    batch.submit("0123abcd", JOBS, 1, chunk=2)
    first, third = queue.jobs
    assert (first["jobName"], first["arrayProperties"]) == ("traingrid-0123abcd", {"size": 10_000})
    assert third["jobName"] == "traingrid-0123abcd-2"
    assert "arrayProperties" not in third, "Batch takes no array of one"
    variable = {"name": "S3_ARRAY_FILE", "value": "s3://bucket/submissions/0123abcd/jobs-2.jsonl?versionId=v1"}
    assert third["containerOverrides"]["environment"] == [variable]


def test_an_array_with_a_lost_reply_is_found_by_name_on_any_page(batch: Batch, queue: Queue) -> None:
    batch.submit("0123abcd", JOBS, 3)
    queue.error = LOST
    assert batch.submit("0123abcd", JOBS, 3, chunk=1) == "id-2"
    assert batch.find("0123abcd", 1) == "id-2"
    assert batch.find("0123abcd", 2) is None
    assert len(queue.jobs) == 2


def test_an_array_that_was_refused_is_not_found(batch: Batch, queue: Queue) -> None:
    batch.submit("0123abcd", JOBS, 3)
    queue.error = REFUSED
    with pytest.raises(SubmitFailedError, match="traingrid-0123abcd-1"):
        batch.submit("0123abcd", JOBS, 3, chunk=1)


def test_a_submission_that_iam_refuses_names_action_resource_role_and_next_step(batch: Batch, queue: Queue) -> None:
    """The error message is from a real account: https://github.com/wri/gfw-data-api/pull/175."""
    definition = "arn:aws:batch:us-east-1:123456789012:job-definition/traingrid-orchestrator:4"
    message = (
        "User: arn:aws:sts::123456789012:assumed-role/traingrid-intake/b2aaebb971fd is not authorized to perform: "
        f"batch:TagResource on resource: {definition} because no identity-based policy allows it"
    )
    details = {"Error": {"Code": "AccessDeniedException", "Message": message}}
    queue.error = ClientError(details, "SubmitJob")  # type: ignore[arg-type]  # a reply in the stubs has all fields
    queue.paginate = lambda **_asked: iter([{"jobSummaryList": []}])  # type: ignore[method-assign]  # replaced for the test
    with pytest.raises(SubmitFailedError) as raised:
        batch.submit("0123abcd", JOBS, 2)
    assert raised.value.refused
    assert raised.value.what == (
        "AWS Batch refused the job traingrid-0123abcd: role traingrid-intake is not allowed to perform "
        f"batch:TagResource on {definition}."
    )
    assert raised.value.next_step.startswith("Deploy the grid again")


def test_only_a_shared_queue_receives_a_share(batch: Batch, queue: Queue) -> None:
    batch.submit("0123abcd", JOBS, 3, share="research", priority=7)
    shares = {"research": 1, "production": 4}
    batch._deployment = replace(batch._deployment, grid=batch._deployment.grid.model_copy(update={"shares": shares}))
    batch.submit("0123abcd", JOBS, 3, share="production", priority=7)
    batch.submit("0123abcd", JOBS, 3)
    share_settings = [(job.get("shareIdentifier"), job.get("schedulingPriorityOverride")) for job in queue.jobs]
    assert share_settings == [(None, None), ("production", 7), ("research", 0)]
