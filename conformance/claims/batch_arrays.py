"""AWS Batch: array jobs and their children on Fargate."""

import json

from conformance.aws import Aws
from conformance.claim import claim
from conformance.resources.batch import PREFIX, Batch
from conformance.sources import model, page

_VARIABLES = "https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html"
_ARRAYS = "https://docs.aws.amazon.com/batch/latest/userguide/array_jobs.html"


@claim(
    page(_VARIABLES, "The array job index begins at 0"),
    page(_ARRAYS, "The first array job index is numbered 0"),
    used_by="traingrid/child/environment.py traingrid/child/main.py",
)
def index_begins_at_zero(aws: Aws) -> None:
    """The first child of an array has index 0, both in AWS_BATCH_JOB_ARRAY_INDEX and in its job id."""
    batch = Batch.of(aws)
    child = batch.child(0)
    variables = json.loads(batch.lines(child)[0])
    assert child["arrayProperties"]["index"] == 0
    assert variables["AWS_BATCH_JOB_ARRAY_INDEX"] == "0"
    assert variables["AWS_BATCH_JOB_ID"] == f"{batch.array()['jobId']}:0"


@claim(page(_VARIABLES, "set to the size of the parent array job"), used_by="traingrid/child/environment.py")
def children_know_the_size_of_their_array(aws: Aws) -> None:
    """AWS_BATCH_JOB_ARRAY_SIZE is the size of the array, in each of its children."""
    batch = Batch.of(aws)
    size = str(batch.array()["arrayProperties"]["size"])
    for index in (0, 1):
        assert json.loads(batch.lines(batch.child(index))[0])["AWS_BATCH_JOB_ARRAY_SIZE"] == size


@claim(
    model("batch", "ContainerOverrides", 'Environment variables cannot start with "AWS_BATCH"'),
    page(
        "https://github.com/raster-foundry/raster-foundry/pull/2525",
        "were getting wiped by AWS Batch at job scheduling time",
    ),
    page(
        "https://github.com/azavea/raster-vision/pull/926", "upon execution, these environment variables do not appear"
    ),
    used_by="traingrid/child/environment.py",
)
def batch_drops_variables_with_its_own_prefix(aws: Aws) -> None:
    """An overridden variable whose name begins with AWS_BATCH is accepted but does not reach the container."""
    batch = Batch.of(aws)
    forged = {"environment": [{"name": "AWS_BATCH_MINE", "value": "4"}]}
    job = batch.ended(batch.submit(batch.define("child"), containerOverrides=forged))
    assert "AWS_BATCH_MINE" not in json.loads(batch.lines(job)[0])


@claim(page(_VARIABLES, "This variable is only set in child array jobs"), used_by="traingrid/child/environment.py")
def plain_job_has_no_index(aws: Aws) -> None:
    """A job that is not an array has no AWS_BATCH_JOB_ARRAY_INDEX."""
    batch = Batch.of(aws)
    job = batch.ended(batch.submit(batch.define("child")))
    assert "AWS_BATCH_JOB_ARRAY_INDEX" not in json.loads(batch.lines(job)[0])


@claim(
    page(_VARIABLES, "The first attempt is numbered 1"),
    used_by="traingrid/child/environment.py traingrid/child/main.py",
)
def attempts_count_from_one(aws: Aws) -> None:
    """AWS_BATCH_JOB_ATTEMPT is 1 in the first attempt and 2 in the second."""
    batch = Batch.of(aws)
    assert json.loads(batch.lines(batch.child(0))[0])["AWS_BATCH_JOB_ATTEMPT"] == "1"
    assert json.loads(batch.lines(batch.child(1))[0])["AWS_BATCH_JOB_ATTEMPT"] == "2"


@claim(
    page(_ARRAYS, "the parent job also fails"),
    used_by="traingrid/submission/batch_children.py traingrid/reconciler/reconciler.py",
)
def failed_child_fails_the_parent_and_no_other_child(aws: Aws) -> None:
    """If a child fails, the other children run until they end, and then the parent becomes FAILED."""
    batch = Batch.of(aws)
    parent = batch.array()
    assert parent["status"] == "FAILED"
    summary = {status: count for status, count in parent["arrayProperties"]["statusSummary"].items() if count}
    assert summary == {"SUCCEEDED": 4, "FAILED": 1}


@claim(
    model("batch", "SubmitJobRequest", "add new environment variables to it with an environment override"),
    used_by="traingrid/aws/batch.py",
)
def environment_of_a_job_reaches_its_container(aws: Aws) -> None:
    """An environment override in SubmitJob sets a variable in the container."""
    batch = Batch.of(aws)
    mine = {"environment": [{"name": "MINE", "value": "s3://a/b c"}]}
    job = batch.ended(batch.submit(batch.define("child"), containerOverrides=mine))
    assert json.loads(batch.lines(job)[0])["MINE"] == "s3://a/b c"


@claim(
    page("https://docs.aws.amazon.com/batch/latest/userguide/using_awslogs.html", "prefix-name/default/ecs-task-id"),
    used_by="stacks/orchestrator.py traingrid/submission/batch_children.py",
)
def child_logs_into_a_stream_of_its_own(aws: Aws) -> None:
    """An attempt logs to the stream <prefix>/default/<task> in the definition's group, and DescribeJobs returns it."""
    batch = Batch.of(aws)
    streams = [batch.child(index)["container"]["logStreamName"] for index in (0, 1)]
    assert all(stream.startswith(f"{PREFIX}/default/") for stream in streams)
    assert len(set(streams)) == 2


@claim(
    model("batch", "ArrayPropertiesDetail", "The job index within the array"),
    used_by="traingrid/submission/batch_children.py",
)
def children_are_described_by_id_and_index(aws: Aws) -> None:
    """DescribeJobs accepts several children of an array in one request, as <parent>:<index>."""
    batch = Batch.of(aws)
    ids = [f"{batch.array()['jobId']}:{index}" for index in range(5)]
    jobs = batch.api.describe_jobs(jobs=ids)["jobs"]
    assert sorted(job["arrayProperties"]["index"] for job in jobs) == [0, 1, 2, 3, 4]
