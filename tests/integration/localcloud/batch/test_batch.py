import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.batch import submission
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, EXECUTION_ROLE, image, role, runs, wait_until

_numbers = itertools.count()


class Batch:
    """A queue of the running localcloud and its operations."""

    def __init__(self, client: Callable[..., Any], vcpus: int) -> None:
        self.api, self.ecr, self.logs = client("batch"), client("ecr"), client("logs")
        self.name = f"queue-{next(_numbers)}"
        self.role = role(client("iam"), "job-role", "ecs-tasks.amazonaws.com")
        self.environment = self.api.create_compute_environment(
            computeEnvironmentName=self.name,
            type="MANAGED",
            serviceRole=self.role,
            computeResources={
                "type": "FARGATE",
                "maxvCpus": vcpus,
                "subnets": [_subnet(client)],
                "securityGroupIds": [_group(client)],
            },
        )["computeEnvironmentArn"]
        self.queue = self.api.create_job_queue(
            jobQueueName=self.name,
            state="ENABLED",
            priority=1,
            computeEnvironmentOrder=[{"order": 1, "computeEnvironment": self.environment}],
        )["jobQueueArn"]

    def define(self, code: str, *, uri: str | None = None, container: dict[str, Any] | None = None, **more: Any) -> str:
        name = f"definition-{next(_numbers)}"
        answer = self.api.register_job_definition(
            jobDefinitionName=name,
            type="container",
            platformCapabilities=["FARGATE"],
            containerProperties={
                "image": uri or image(self.ecr, name, code),
                "jobRoleArn": self.role,
                "executionRoleArn": EXECUTION_ROLE,
                "resourceRequirements": [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "512"}],
                **(container or {}),
            },
            **more,
        )
        return str(answer["jobDefinitionArn"])

    def submit(self, definition: str, **more: Any) -> str:
        answer = self.api.submit_job(jobName="job", jobQueue=self.queue, jobDefinition=definition, **more)
        return str(answer["jobId"])

    def run(self, code: str, definition: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return self.ended(self.submit(self.define(code, **(definition or {})), **more))

    def job(self, job_id: str) -> dict[str, Any]:
        return dict(self.api.describe_jobs(jobs=[job_id])["jobs"][0])

    def ended(self, job_id: str) -> dict[str, Any]:
        return wait_until(lambda: ((job := self.job(job_id))["status"] in ("SUCCEEDED", "FAILED") and job) or {})

    def reached(self, job_id: str, status: str) -> None:
        wait_until(lambda: self.job(job_id)["status"] == status)

    def lines(self, job: dict[str, Any], group: str = "/aws/batch/job") -> list[str]:
        answer = self.logs.get_log_events(logGroupName=group, logStreamName=job["container"]["logStreamName"])
        return [event["message"] for event in answer["events"]]


def _subnet(client: Callable[..., Any]) -> str:
    return str(client("ec2").describe_subnets()["Subnets"][0]["SubnetId"])


def _group(client: Callable[..., Any]) -> str:
    return str(client("ec2").describe_security_groups()["SecurityGroups"][0]["GroupId"])


@pytest.fixture(scope="module")
def batch(cloud: LocalCloud, client: Callable[..., Any]) -> Batch:
    return Batch(client, vcpus=4)


def test_a_job_runs_its_image_and_logs_its_output_to_cloudwatch(batch: Batch) -> None:
    job = batch.run("import sys; print('out', flush=True); print('err', file=sys.stderr)")
    assert (job["status"], job["container"]["exitCode"]) == ("SUCCEEDED", 0)
    assert job["statusReason"] == "Essential container in task exited"
    assert batch.lines(job) == ["out", "err"]
    assert job["createdAt"] <= job["startedAt"] <= job["stoppedAt"]
    assert [attempt["container"]["exitCode"] for attempt in job["attempts"]] == [0]


def test_a_job_gets_batchs_variables_and_role_credentials_only(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_USER", "1")
    job = batch.run(
        "import os, boto3; e = os.environ; print(e['AWS_BATCH_JOB_ID'], e['AWS_BATCH_JOB_ATTEMPT'],"
        " e['AWS_BATCH_JQ_NAME'],"
        " e['AWS_BATCH_CE_NAME'], e['A'], e['B'], any('ARRAY' in name for name in e), 'SECRET_OF_THE_USER' in e);"
        "print(boto3.client('sts').get_caller_identity()['Arn'])",
        {"container": {"environment": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}},
        containerOverrides={
            "environment": [{"name": "B", "value": "2"}, {"name": "AWS_BATCH_JOB_ARRAY_SIZE", "value": "4"}]
        },
    )
    first, second = batch.lines(job)
    assert first == f"{job['jobId']} 1 {batch.name} {batch.name} 1 2 False False"
    assert second.startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/job-role/")


def test_a_job_gets_command_and_parameters_and_logs_to_its_definitions_group(
    batch: Batch, client: Callable[..., Any]
) -> None:
    client("logs").create_log_group(logGroupName="/mine")
    logs = {"logDriver": "awslogs", "options": {"awslogs-group": "/mine", "awslogs-stream-prefix": "p"}}
    definition = batch.define(
        "import sys; print(sys.argv[1:])",
        parameters={"a": "1", "b": "1"},
        container={"command": ["x", "Ref::a", "Ref::b", "Ref::c"], "logConfiguration": logs},
    )
    job = batch.ended(batch.submit(definition, parameters={"b": "2"}))
    assert job["container"]["logStreamName"].startswith("p/default/")
    assert batch.lines(job, "/mine") == ["['x', '1', '2', 'Ref::c']"]


def test_array_children_get_their_index_and_one_failure_fails_the_array(
    batch: Batch,
) -> None:
    code = (
        "import os, sys; i = os.environ['AWS_BATCH_JOB_ARRAY_INDEX'];"
        "print(i, 'of', os.environ['AWS_BATCH_JOB_ARRAY_SIZE']); sys.exit(i == '1')"
    )
    parent = batch.run(code, arrayProperties={"size": 3})
    assert (parent["status"], parent["statusReason"]) == ("FAILED", "Array Child Job failed")
    summary = parent["arrayProperties"]["statusSummary"]
    assert (summary["SUCCEEDED"], summary["FAILED"], sum(summary.values())) == (2, 1, 3)
    children = [batch.job(f"{parent['jobId']}:{index}") for index in range(3)]
    assert [batch.lines(child) for child in children] == [["0 of 3"], ["1 of 3"], ["2 of 3"]]
    assert [child["arrayProperties"]["index"] for child in children] == [0, 1, 2]
    listed = batch.api.list_jobs(arrayJobId=parent["jobId"], jobStatus="FAILED")["jobSummaryList"]
    assert [(child["jobId"], child["container"]["exitCode"]) for child in listed] == [(f"{parent['jobId']}:1", 1)]


def test_children_wait_in_runnable_for_vcpus_while_the_parent_is_pending(client: Callable[..., Any]) -> None:
    batch = Batch(client, vcpus=1)
    quarter = batch.submit(batch.define("import time; time.sleep(60)"), arrayProperties={"size": 6})
    wait_until(lambda: batch.job(quarter)["arrayProperties"]["statusSummary"]["RUNNING"] == 4)
    parent = batch.job(quarter)
    assert (parent["status"], parent["arrayProperties"]["statusSummary"]["RUNNABLE"]) == ("PENDING", 2)
    batch.api.cancel_job(jobId=quarter, reason="not these")
    waiting, running = batch.job(f"{quarter}:5"), batch.job(f"{quarter}:0")
    assert (waiting["status"], waiting["statusReason"], waiting["isCancelled"]) == ("FAILED", "not these", True)
    assert (running["status"], running["isCancelled"]) == ("RUNNING", False)
    batch.api.terminate_job(jobId=quarter, reason="enough")
    assert batch.ended(quarter)["arrayProperties"]["statusSummary"]["FAILED"] == 6
    ended = batch.job(f"{quarter}:0")
    assert (ended["statusReason"], ended["isTerminated"], ended["container"]["exitCode"]) == ("enough", True, 143)


def test_a_queue_serves_shares_by_weight_and_their_jobs_by_priority(client: Callable[..., Any]) -> None:
    batch = Batch(client, vcpus=1)
    shares = [
        {"shareIdentifier": "research", "weightFactor": 1.0},
        {"shareIdentifier": "production", "weightFactor": 0.25},
    ]
    policy = batch.api.create_scheduling_policy(name=batch.name, fairsharePolicy={"shareDistribution": shares})["arn"]
    own = batch.queue
    batch.queue = batch.api.create_job_queue(
        jobQueueName=f"{batch.name}-shared",
        state="ENABLED",
        priority=1,
        schedulingPolicyArn=policy,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": batch.environment}],
    )["jobQueueArn"]
    definition = batch.define("import time; time.sleep(60)")
    many = batch.submit(definition, shareIdentifier="research", arrayProperties={"size": 4})
    wait_until(lambda: batch.job(many)["arrayProperties"]["statusSummary"]["RUNNING"] == 4)
    later, urgent = (
        batch.submit(definition, shareIdentifier="research", schedulingPriorityOverride=number) for number in (0, 9)
    )
    other = batch.submit(definition, shareIdentifier="production")
    batch.api.terminate_job(jobId=f"{many}:0", reason="room for one")
    batch.reached(other, "RUNNING")
    batch.api.terminate_job(jobId=f"{many}:1", reason="room for one more")
    batch.reached(urgent, "RUNNING")
    assert batch.job(later)["status"] == "RUNNABLE"
    for job in (many, later, urgent, other):
        batch.api.terminate_job(jobId=job, reason="the test is over")
    for queue, more in ((batch.queue, {}), (own, {"shareIdentifier": "research"})):
        with pytest.raises(ClientError, match="shareIdentifier must be given for queues with a scheduling policy only"):
            batch.api.submit_job(jobName="job", jobQueue=queue, jobDefinition=definition, **more)


def test_an_array_of_ten_thousand_is_accepted_listed_in_pages_and_cancelled(client: Callable[..., Any]) -> None:
    batch = Batch(client, vcpus=1)
    busy = batch.submit(
        batch.define(
            "import time; time.sleep(60)",
            container={"resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "2048"}]},
        )
    )
    batch.reached(busy, "RUNNING")
    parent = batch.submit(batch.define("pass"), arrayProperties={"size": 10_000})
    wait_until(lambda: batch.job(parent)["arrayProperties"]["statusSummary"]["RUNNABLE"] == 10_000)
    assert threading.active_count() < 100  # a waiting child needs no thread
    pages = batch.api.get_paginator("list_jobs").paginate(arrayJobId=parent, jobStatus="RUNNABLE")
    assert [len(page["jobSummaryList"]) for page in pages] == [1000] * 10
    batch.api.cancel_job(jobId=parent, reason="enough")
    assert batch.job(parent)["status"] == "FAILED"
    batch.api.terminate_job(jobId=busy, reason="enough")
    batch.ended(busy)


def test_evaluate_on_exit_decides_about_retries(batch: Batch) -> None:
    rules = [{"onExitCode": "75", "action": "RETRY"}, {"onReason": "*", "action": "EXIT"}]
    strategy = {"attempts": 3, "evaluateOnExit": rules}
    again = batch.run(
        "import os, sys; sys.exit(75 if os.environ['AWS_BATCH_JOB_ATTEMPT'] < '3' else 0)", retryStrategy=strategy
    )
    assert again["status"] == "SUCCEEDED"
    assert [attempt["container"]["exitCode"] for attempt in again["attempts"]] == [75, 75, 0]
    assert len({attempt["container"]["logStreamName"] for attempt in again["attempts"]}) == 3
    once = batch.run("import sys; sys.exit(2)", retryStrategy=strategy)
    assert (once["status"], len(once["attempts"])) == ("FAILED", 1)


def test_an_array_waits_for_a_child_that_is_retried(batch: Batch) -> None:
    code = (
        "import os, sys, time; e = os.environ; time.sleep(0.3);"
        "sys.exit(75 if (e['AWS_BATCH_JOB_ARRAY_INDEX'], e['AWS_BATCH_JOB_ATTEMPT']) == ('1', '1') else 0)"
    )
    job_id = batch.submit(batch.define(code), arrayProperties={"size": 2}, retryStrategy={"attempts": 2})
    wait_until(lambda: batch.job(f"{job_id}:1")["attempts"])
    assert batch.job(job_id)["status"] == "PENDING"
    assert batch.ended(job_id)["status"] == "SUCCEEDED"
    attempts = batch.job(f"{job_id}:1")["attempts"]
    assert [attempt["container"]["exitCode"] for attempt in attempts] == [75, 0]
    assert len({attempt["container"]["logStreamName"] for attempt in attempts}) == 2


def test_a_killed_process_exits_with_128_plus_signal_and_is_retried(batch: Batch) -> None:
    job = batch.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", retryStrategy={"attempts": 2})
    assert [attempt["container"]["exitCode"] for attempt in job["attempts"]] == [137, 137]


def test_a_child_terminated_while_waiting_never_starts(client: Callable[..., Any]) -> None:
    batch = Batch(client, vcpus=1)
    whole = {"resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "2048"}]}
    definition = batch.define("import time; time.sleep(60)", container=whole)
    array = batch.submit(definition, arrayProperties={"size": 2}, retryStrategy={"attempts": 3})
    batch.reached(f"{array}:0", "RUNNING")
    batch.api.terminate_job(jobId=f"{array}:1", reason="not this one")
    child = batch.job(f"{array}:1")
    assert (child["status"], child["statusReason"], child["attempts"]) == ("FAILED", "not this one", [])
    assert (child["isTerminated"], child["isCancelled"]) == (True, False)
    assert batch.job(array)["status"] == "PENDING"
    batch.api.terminate_job(jobId=array, reason="enough")
    batch.ended(array)


def test_a_failure_that_matches_no_rule_is_retried(batch: Batch) -> None:
    strategy = {"attempts": 2, "evaluateOnExit": [{"onExitCode": "9*", "action": "EXIT"}]}
    assert len(batch.run("import sys; sys.exit(1)", retryStrategy=strategy)["attempts"]) == 2


@pytest.mark.parametrize("repository", ["nowhere:v1", "elsewhere:v2"])
def test_an_image_missing_in_the_region_cannot_be_pulled(
    batch: Batch, client: Callable[..., Any], repository: str
) -> None:
    image(client("ecr", "eu-west-1"), "nowhere", "pass")
    image(client("ecr"), "elsewhere", "pass")
    definition = batch.define("", uri=f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/{repository}")
    strategy = {"attempts": 2, "evaluateOnExit": [{"onExitCode": "1", "action": "EXIT"}]}
    job = batch.ended(batch.submit(definition, retryStrategy=strategy))
    assert (job["status"], job["statusReason"], len(job["attempts"])) == ("FAILED", "Task failed to start", 2)
    assert job["container"]["reason"].startswith("CannotPullContainerError:")
    assert "exitCode" not in job["container"]


def test_terminate_job_sends_sigterm_and_prevents_a_retry(batch: Batch) -> None:
    code = (
        "import signal, sys, time; signal.signal(15, lambda *_: (print('bye', flush=True), sys.exit(0)));"
        "print('up', flush=True); time.sleep(60)"
    )
    job_id = batch.submit(batch.define(code), retryStrategy={"attempts": 3})
    batch.reached(job_id, "RUNNING")
    wait_until(lambda: batch.lines(batch.job(job_id)) == ["up"])
    batch.api.terminate_job(jobId=job_id, reason="requested by the user")
    job = batch.ended(job_id)
    assert (job["status"], job["statusReason"], job["isTerminated"]) == ("FAILED", "requested by the user", True)
    assert (batch.lines(job), len(job["attempts"])) == (["up", "bye"], 1)


def test_a_job_that_ignores_sigterm_is_killed_with_its_children(batch: Batch) -> None:
    code = (
        "import signal, subprocess, time; signal.signal(15, signal.SIG_IGN);"
        "print(subprocess.Popen(['sleep', '60'], start_new_session=True, env={}).pid, flush=True); time.sleep(60)"
    )
    job_id = batch.submit(batch.define(code))
    batch.reached(job_id, "RUNNING")
    (child,) = wait_until(lambda: batch.lines(batch.job(job_id)))
    before = time.monotonic()
    batch.api.terminate_job(jobId=job_id, reason="now")
    assert batch.ended(job_id)["container"]["exitCode"] == 137
    assert time.monotonic() - before >= 2
    wait_until(lambda: not runs(int(child)))


def test_a_job_that_times_out_is_stopped_and_not_retried(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MIN_TIMEOUT_SECONDS", 1)
    job = batch.run("import time; time.sleep(60)", timeout={"attemptDurationSeconds": 1}, retryStrategy={"attempts": 3})
    assert (job["status"], job["statusReason"]) == ("FAILED", "Job attempt duration exceeded timeout")
    assert len(job["attempts"]) == 1


def test_a_job_that_exits_with_0_after_its_timeout_still_fails(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MIN_TIMEOUT_SECONDS", 1)
    obedient = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); time.sleep(60)"
    job = batch.run(obedient, timeout={"attemptDurationSeconds": 1})
    assert (job["status"], job["container"]["exitCode"]) == ("FAILED", 0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"jobName": "-x"}, "jobName '-x' must begin with"),
        ({"jobName": "x" * 129}, "1 to 128"),
        ({"jobQueue": "none"}, "JobQueue 'none' does not exist"),
        ({"jobDefinition": "none"}, "JobDefinition 'none' does not exist"),
        ({"arrayProperties": {"size": 1}}, "between 2 and 10000; got 1"),
        ({"arrayProperties": {"size": 10_001}}, "between 2 and 10000; got 10001"),
        ({"dependsOn": [{"jobId": "x"}]}, "dependsOn is not supported by localcloud"),
        ({"retryStrategy": {"attempts": 11}}, "between 1 and 10; got 11"),
        ({"retryStrategy": {"attempts": 1, "evaluateOnExit": [{"onReason": "*", "action": "EXIT"}] * 6}}, "at most 5"),
        ({"timeout": {"attemptDurationSeconds": 59}}, "at least 60; got 59"),
    ],
)
def test_an_invalid_submission_is_refused_with_the_reason(batch: Batch, change: dict[str, Any], sentence: str) -> None:
    request = {"jobName": "job", "jobQueue": batch.queue, "jobDefinition": batch.define("pass")} | change
    with pytest.raises(ClientError, match=sentence) as refusal:
        batch.api.submit_job(**request)
    assert refusal.value.response["Error"]["Code"] == "ClientException"


def test_a_tag_with_an_invalid_character_is_refused(batch: Batch) -> None:
    definition = batch.define("pass")
    for tags in ({"version": "2.8.1+mc(0.10.0)"}, {"(x)": "y"}):
        with pytest.raises(ClientError, match="it contains illegal characters") as refused:
            batch.submit(definition, tags=tags)
        assert refused.value.response["Error"]["Code"] == "BadRequestException"
    allowed = {"größe": "a b_1.5:/@=+-"}
    assert batch.ended(batch.submit(definition, tags=allowed))["tags"] == allowed
    with pytest.raises(ClientError, match="at most 50 entries; got 51"):
        batch.submit(definition, tags={str(number): "" for number in range(51)})


def test_a_client_may_send_maps_without_entries(batch: Batch) -> None:
    job = batch.run("pass", tags={}, parameters={}, arrayProperties={})
    assert job["status"] == "SUCCEEDED"


def test_a_queue_without_a_state_is_enabled(batch: Batch) -> None:
    order = [{"order": 1, "computeEnvironment": batch.environment}]
    batch.api.create_job_queue(jobQueueName="stateless", priority=1, computeEnvironmentOrder=order)
    (made,) = batch.api.describe_job_queues(jobQueues=["stateless"])["jobQueues"]
    assert made["state"] == "ENABLED"


def test_an_invalid_compute_environment_raises_a_client_exception(batch: Batch) -> None:
    with pytest.raises(batch.api.exceptions.ClientException, match="must be one of MANAGED"):
        batch.api.create_compute_environment(computeEnvironmentName="wrong", type="MANGED", serviceRole=batch.role)


def test_a_submission_larger_than_30_kib_is_refused(batch: Batch) -> None:
    environment = {"environment": [{"name": "A", "value": "x" * 30_000}]}
    definition = batch.define("pass")
    assert batch.submit(definition, containerOverrides=environment)
    environment["environment"][0]["value"] += "x" * 1_000
    with pytest.raises(ClientError, match="SubmitJob accepts at most 30720"):
        batch.submit(definition, containerOverrides=environment)


def test_a_disabled_queue_refuses_jobs(client: Callable[..., Any]) -> None:
    batch = Batch(client, vcpus=1)
    batch.api.update_job_queue(jobQueue=batch.queue, state="DISABLED")
    with pytest.raises(ClientError, match="must be ENABLED"):
        batch.submit(batch.define("pass"))


def test_an_inactive_job_definition_is_refused(batch: Batch) -> None:
    definition = batch.define("pass")
    batch.api.deregister_job_definition(jobDefinition=definition)
    with pytest.raises(ClientError, match="not ACTIVE"):
        batch.submit(definition)


def test_describe_jobs_omits_unknown_ids_and_accepts_at_most_100(batch: Batch) -> None:
    job = batch.run("pass", tags={"a": "b"})
    jobs = batch.api.describe_jobs(jobs=["unknown", job["jobId"], f"{job['jobId']}:0x", job["jobArn"]])["jobs"]
    assert [found["jobId"] for found in jobs] == [job["jobId"]] * 2
    assert jobs[0]["tags"] == {"a": "b"}
    with pytest.raises(ClientError, match="at most 100"):
        batch.api.describe_jobs(jobs=["x"] * 101)


def test_list_jobs_filters_by_status_name_definition_and_time(client: Callable[..., Any]) -> None:
    batch = Batch(client, vcpus=1)
    definition = batch.define("pass")
    ids = []
    for name in ("Alpha", "alphabet", "beta"):
        ids.append(batch.api.submit_job(jobName=name, jobQueue=batch.queue, jobDefinition=definition)["jobId"])
        batch.ended(ids[-1])

    def listed(**query: Any) -> list[str]:
        return [job["jobId"] for job in batch.api.list_jobs(jobQueue=batch.queue, **query)["jobSummaryList"]]

    def matching(name: str, value: str) -> list[str]:
        return listed(filters=[{"name": name, "values": [value]}])

    assert listed() == []  # RUNNING only
    assert listed(jobStatus="SUCCEEDED") == ids
    assert matching("JOB_NAME", "ALPHA") == ids[:1]
    assert listed(filters=[{"name": "JOB_NAME", "values": ["beta"]}], jobStatus="FAILED") == ids[2:]
    assert matching("JOB_NAME", "alpha*") == [ids[1], ids[0]]
    assert matching("JOB_DEFINITION", definition) == ids[::-1]
    created = batch.job(ids[1])["createdAt"]
    assert matching("AFTER_CREATED_AT", str(created)) == ids[2:]
    assert matching("BEFORE_CREATED_AT", str(created)) == ids[:1]


def test_a_queue_recreated_with_the_same_name_starts_jobs(batch: Batch) -> None:
    first = batch.run("print(1)")
    assert first["status"] == "SUCCEEDED"
    described = batch.api.describe_compute_environments(computeEnvironments=[batch.environment])
    resources = described["computeEnvironments"][0]["computeResources"]
    batch.api.update_job_queue(jobQueue=batch.queue, state="DISABLED")
    batch.api.update_compute_environment(computeEnvironment=batch.environment, state="DISABLED")
    batch.api.delete_job_queue(jobQueue=batch.queue)
    batch.api.delete_compute_environment(computeEnvironment=batch.environment)
    again = batch.api.create_compute_environment(
        computeEnvironmentName=batch.name, type="MANAGED", serviceRole=batch.role, computeResources=resources
    )["computeEnvironmentArn"]
    order = [{"order": 1, "computeEnvironment": again}]
    queue = batch.api.create_job_queue(
        jobQueueName=batch.name, state="ENABLED", priority=1, computeEnvironmentOrder=order
    )
    assert queue["jobQueueArn"] == batch.queue
    assert batch.run("print(2)")["status"] == "SUCCEEDED"


def test_every_status_change_sends_an_event(batch: Batch, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[dict[str, Any]] = []
    monkeypatch.setattr(cloud, "put_event", lambda region, event: events.append(event))
    job = batch.run("import sys; sys.exit(1)")
    assert [event["detail"]["status"] for event in events] == ["RUNNABLE", "STARTING", "RUNNING", "FAILED"]
    last = events[-1]
    assert (last["source"], last["detail-type"]) == ("aws.batch", "Batch Job State Change")
    assert (last["resources"], last["detail"]["jobId"]) == ([job["jobArn"]], job["jobId"])
    assert last["detail"]["container"]["exitCode"] == 1


def test_a_definition_with_an_invalid_retry_strategy_or_timeout_is_refused(batch: Batch) -> None:
    refused: tuple[dict[str, Any], ...] = (
        {"retryStrategy": {"attempts": 11}},
        {"timeout": {"attemptDurationSeconds": 59}},
    )
    for wrong in refused:
        with pytest.raises(ClientError, match="must be"):
            batch.define("pass", **wrong)
