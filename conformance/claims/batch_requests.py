"""AWS Batch: limits of SubmitJob, and calls that read jobs."""

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.batch import Batch
from conformance.sources import model, page

_REFUSED = "ClientException"
_SIZE = model("batch", "SubmitJobRequest", "The array size can be between 2 and 10,000")


@claim(_SIZE, used_by="traingrid/aws/batch.py traingrid/submission/intake.py")
def array_of_one_is_refused(aws: Aws) -> None:
    """SubmitJob refuses an array of size 1, so a manifest with one line becomes a plain job."""
    batch = Batch.of(aws)
    with refused(_REFUSED):
        batch.submit(batch.define("nothing"), arrayProperties={"size": 1})


@claim(_SIZE, used_by="traingrid/submission/files.py traingrid/submission/intake.py")
def array_of_10001_is_refused(aws: Aws) -> None:
    """SubmitJob refuses an array of more than 10,000 children."""
    batch = Batch.of(aws)
    with refused(_REFUSED):
        batch.submit(batch.define("nothing"), arrayProperties={"size": 10_001})


@claim(_SIZE, used_by="traingrid/aws/batch.py")
def array_of_two_is_accepted(aws: Aws) -> None:
    """SubmitJob accepts an array of two children."""
    batch = Batch.of(aws)
    job = batch.submit(batch.define("nothing"), arrayProperties={"size": 2})
    assert batch.job(job)["arrayProperties"]["size"] == 2


@claim(
    model("batch", "SubmitJobRequest", "It can be up to 128 letters long"),
    used_by="traingrid/aws/batch.py traingrid/names.py",
)
def job_name_has_at_most_128_characters(aws: Aws) -> None:
    """SubmitJob refuses a job name of 129 characters, or with a dot."""
    batch = Batch.of(aws)
    definition = batch.define("nothing")
    for name in ("n" * 129, "a.b"):
        with refused(_REFUSED):
            batch.submit(definition, jobName=name)


@claim(
    page(
        "https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html",
        "Maximum job payload size (for SubmitJob API operations)",
    ),
    used_by="traingrid/aws/batch.py",
)
def payload_of_a_job_is_limited(aws: Aws) -> None:
    """SubmitJob refuses requests above 30 KiB, so a job receives the address of its submission."""
    batch = Batch.of(aws)
    long = {"environment": [{"name": "LONG", "value": "v" * 31 * 1024}]}
    with refused(_REFUSED):
        batch.submit(batch.define("nothing"), containerOverrides=long)


@claim(
    model("batch", "RetryStrategy", "You can specify between 1 and 10 attempts"),
    used_by="stacks/orchestrator.py",
)
def at_most_ten_attempts(aws: Aws) -> None:
    """A job definition with eleven attempts is refused; one with ten is accepted."""
    batch = Batch.of(aws)
    with refused(_REFUSED):
        batch.define("nothing", retryStrategy={"attempts": 11})
    batch.define("nothing", retryStrategy={"attempts": 10})


@claim(
    model("batch", "RetryStrategy", "Array of up to 5 objects"),
    used_by="stacks/orchestrator.py",
)
def at_most_five_conditions(aws: Aws) -> None:
    """A retry strategy with six conditions is refused."""
    conditions = [{"onExitCode": str(code), "action": "EXIT"} for code in range(1, 7)]
    with refused(_REFUSED):
        Batch.of(aws).define("nothing", retryStrategy={"attempts": 2, "evaluateOnExit": conditions})


@claim(
    model("batch", "EvaluateOnExit", "It can contain only numbers, and can end with an asterisk"),
    used_by="stacks/orchestrator.py",
)
def exit_codes_are_numbers(aws: Aws) -> None:
    """A condition whose onExitCode is not a number is refused."""
    conditions = [{"onExitCode": "seventy", "action": "EXIT"}]
    with refused(_REFUSED):
        Batch.of(aws).define("nothing", retryStrategy={"attempts": 2, "evaluateOnExit": conditions})


@claim(
    model("batch", "JobTimeout", "The minimum value for the timeout is 60 seconds"),
    used_by="stacks/orchestrator.py",
)
def timeout_of_59_seconds_is_refused(aws: Aws) -> None:
    """A timeout of less than 60 seconds is refused."""
    with refused(_REFUSED):
        Batch.of(aws).define("nothing", timeout={"attemptDurationSeconds": 59})


@claim(
    model("batch", "ListJobsRequest", "jobs with any status are returned"),
    used_by="traingrid/aws/batch.py",
)
def job_is_found_by_its_name_in_any_status(aws: Aws) -> None:
    """ListJobs with the filter JOB_NAME finds a job in its queue by its full name, even after it has ended."""
    batch, name = Batch.of(aws), aws.name("found")
    job = batch.submit(batch.define("nothing"), jobName=name)
    batch.ended(job)

    def found(named: str) -> list[str]:
        filters = [{"name": "JOB_NAME", "values": [named]}]
        listed = batch.api.list_jobs(jobQueue=batch.queue, filters=filters)["jobSummaryList"]
        return [each["jobId"] for each in listed]

    aws.wait(lambda: found(name) == [job], "the list of jobs")
    assert found(name[:-1]) == [], "a prefix alone does not match"
    assert found(f"{name[:-1]}*") == [job], "an asterisk matches the rest"


@claim(
    model("batch", "ListJobsRequest", "The filter doesn't apply to child jobs"),
    used_by="traingrid/aws/batch.py traingrid/submission/batch_children.py",
)
def children_are_not_found_by_name(aws: Aws) -> None:
    """ListJobs with the filter JOB_NAME returns the parent of an array, but not its children."""
    batch = Batch.of(aws)
    parent = batch.array()
    filters = [{"name": "JOB_NAME", "values": [parent["jobName"]]}]
    listed = batch.api.list_jobs(jobQueue=batch.queue, filters=filters)["jobSummaryList"]
    assert [job["jobId"] for job in listed] == [parent["jobId"]]


@claim(model("batch", "DescribeJobsRequest", "A list of up to 100 job IDs"), used_by="traingrid/aws/batch.py")
def at_most_100_jobs_are_described_at_once(aws: Aws) -> None:
    """DescribeJobs refuses more than 100 ids."""
    with refused(_REFUSED):
        aws.client("batch").describe_jobs(jobs=[f"0-{number}" for number in range(101)])


@claim(
    model("batch", "DescribeJobs", "Describes a list of Batch jobs"),
    used_by="traingrid/aws/batch.py traingrid/submission/batch_children.py",
)
def unknown_job_is_left_out(aws: Aws) -> None:
    """DescribeJobs omits unknown ids from its reply, and does not fail."""
    unknown = "00000000-0000-4000-8000-000000000000"
    assert aws.client("batch").describe_jobs(jobs=[unknown])["jobs"] == []


@claim(
    model("batch", "SubmitJobRequest", "If the revision is not specified, then the latest active revision is used"),
    used_by="docs/deploy.md stacks/orchestrator.py",
)
def job_keeps_its_revision(aws: Aws) -> None:
    """A job keeps the revision of its definition that was active when it was submitted."""
    batch, name = Batch.of(aws), aws.name("revised")
    first = batch.define("nothing", name)
    job = batch.submit(name)
    batch.define("nothing", name)
    assert batch.job(job)["jobDefinition"] == first


@claim(
    model("batch", "DeregisterJobDefinition", "Deregisters an Batch job definition"),
    used_by="docs/deploy.md traingrid/aws/batch.py",
)
def deregistered_definition_is_refused(aws: Aws) -> None:
    """SubmitJob refuses a deregistered revision with ClientException, even if the request names its ARN."""
    batch = Batch.of(aws)
    definition = batch.define("nothing")
    batch.api.deregister_job_definition(jobDefinition=definition)
    with refused(_REFUSED):
        batch.submit(definition)


@claim(
    model("batch", "JobDetail", "The tags that are applied to the job"),
    used_by="traingrid/aws/batch.py",
)
def job_is_described_with_its_tags(aws: Aws) -> None:
    """DescribeJobs returns the tags with which a job was submitted."""
    batch = Batch.of(aws)
    tags = batch.job(batch.submit(batch.define("nothing")))["tags"]
    assert aws.tag_map.items() <= tags.items()
