"""Permissions on the service queues: for the child, which submits to them, and for the recorder and reconciler."""

from collections.abc import Iterator

from localcloud.iam.request_keys import Context, tag_keys
from tests.integration.policies.case import RESOURCE, Caller, Case
from tests.integration.policies.grid import ACCOUNT, FREE, INSIDE
from traingrid import names
from traingrid.job.ownership import tags_of

child, recorder, reconciler = Caller("child"), Caller("recorder"), Caller("reconciler")
SUBMIT, TAG, END = "batch:SubmitServiceJob", "batch:TagResource", "batch:TerminateServiceJob"
TAGS = tags_of("traingrid", "0123abcd", 0, "f00d") | {"team": "perception"}
OURS: Context = {"aws:ResourceTag/traingrid:grid": "traingrid"}
THEIRS: Context = {"aws:ResourceTag/traingrid:grid": "another"}


def batch(region: str, resource: str) -> str:
    return f"arn:aws:batch:{region}:{ACCOUNT}:{resource}"


def made_by_batch(region: str, name: str) -> str:
    return f"arn:aws:sagemaker:{region}:{ACCOUNT}:training-job/{name}"


JOB = "service-job/a4d6c728-8ee8-4c65-8e2a-9a5e8f4b7c3d"
QUEUE, QUOTA = batch(INSIDE, "job-queue/traingrid-training"), batch(FREE, "job-queue/traingrid-training-quota")
TRAINED = "AWSBatchtraingrid-0123abcd-0-19b2f08f911cf3dd794c1b3e72ae7ca5f"


def cases() -> Iterator[Case]:
    yield from _queueing()
    yield from _queueing_otherwise()
    yield from _looking()
    yield from _ending()


def _queueing() -> Iterator[Case]:
    for resource in (QUEUE, QUOTA, f"{QUOTA}/quota-share/research", batch(INSIDE, JOB), batch(FREE, JOB)):
        yield child.may("queue a training job", SUBMIT, resource, tag_keys(TAGS))
        yield child.may("tag it on submission", TAG, resource, tag_keys(TAGS))
    for resource in (batch(INSIDE, "job-queue/traingrid"), f"{QUEUE}2", f"{QUOTA}/quota-share/others"):
        yield child.may_not("queue one elsewhere", SUBMIT, resource, tag_keys(TAGS), breaks=RESOURCE)
        yield child.may_not("tag another queue", TAG, resource, tag_keys(TAGS), breaks=RESOURCE)
    yield child.may_not(
        "queue one in a Region outside the grid", SUBMIT, batch("eu-west-1", JOB), tag_keys(TAGS), breaks=RESOURCE
    )
    yield child.may_not("change its priority", "batch:UpdateServiceJob", batch(INSIDE, JOB))
    for caller in (recorder, reconciler):
        yield caller.may_not("queue one", SUBMIT, QUEUE, tag_keys(TAGS))


def _queueing_otherwise() -> Iterator[Case]:
    another = tag_keys(TAGS | {names.TAG_GRID: "another"})
    equal = f"StringEquals aws:RequestTag/{names.TAG_GRID}"
    for action, resource in ((SUBMIT, QUEUE), (SUBMIT, batch(INSIDE, JOB)), (TAG, QUEUE), (TAG, batch(FREE, JOB))):
        yield child.may_not("queue one with another grid's tag", action, resource, another, breaks=equal)
        for tag in (names.TAG_SUBMISSION, names.TAG_JOB, names.TAG_FINGERPRINT):
            left = tag_keys({key: value for key, value in TAGS.items() if key != tag})
            yield child.may_not(f"queue one without {tag}", action, resource, left, breaks=f"Null aws:RequestTag/{tag}")


def _looking() -> Iterator[Case]:
    for caller in (child, recorder, reconciler):
        for action in ("DescribeServiceJob", "ListServiceJobs"):
            yield caller.may("read its state", f"batch:{action}", "*")
        describe = "sagemaker:DescribeTrainingJob"
        yield caller.may("describe its training job", describe, made_by_batch(FREE, TRAINED))
        yield caller.may("describe it by a lower-case name", describe, made_by_batch(FREE, TRAINED.lower()))
        theirs = made_by_batch(FREE, "AWSBatchanother-0123abcd-0-19b2f08f911cf3dd794c1b3e72ae7ca5f")
        yield caller.may_not("describe training jobs of other grids", describe, theirs, breaks=RESOURCE)
    group = f"arn:aws:logs:{INSIDE}:{ACCOUNT}:log-group:/aws/sagemaker/TrainingJobs"
    yield child.may("read its log", "logs:GetLogEvents", f"{group}:log-stream:{TRAINED}/algo-1-1732200000")
    lower = f"{group}:log-stream:{TRAINED.lower()}/algo-1-1732200000"
    yield child.may("read its log by a lower-case name", "logs:GetLogEvents", lower)
    others = f"{group}:log-stream:AWSBatchanother-0-1/algo-1-1732200000"
    yield child.may_not("read another log", "logs:GetLogEvents", others, breaks=RESOURCE)


def _ending() -> Iterator[Case]:
    tagged = f"StringEquals aws:ResourceTag/{names.TAG_GRID}"
    for caller in (child, reconciler):
        for region in (INSIDE, FREE):
            yield caller.may("terminate one of the grid", END, batch(region, JOB), OURS)
        yield caller.may_not("terminate one of another grid", END, batch(INSIDE, JOB), THEIRS, breaks=tagged)
        yield caller.may_not("terminate one without tags", END, batch(INSIDE, JOB), breaks=tagged)
        yield caller.may_not("terminate one in another Region", END, batch("eu-west-1", JOB), OURS, breaks=RESOURCE)
        stop = made_by_batch(FREE, TRAINED)
        yield caller.may_not("stop a job that Batch would restart", "sagemaker:StopTrainingJob", stop, breaks=RESOURCE)
    yield recorder.may_not("terminate one", END, batch(INSIDE, JOB), OURS)
