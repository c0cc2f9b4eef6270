"""End to end without stubs: a manifest in S3, an array job, a Horovod training in each Region, and the ledger."""

import json
from pathlib import Path
from typing import Any

import traingrid as tg
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.submissions import REGIONS, until
from traingrid.api.control_plane import ControlPlane
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.submission.status import SubmissionStatus


def test_each_line_trains_in_its_own_region(trained: SubmissionStatus) -> None:
    good = trained.jobs[:2]
    assert [(job.region, job.state) for job in good] == [(region, "Completed") for region in REGIONS]
    for job in good:
        assert job.metrics["ranks"] == 1
        assert job.metrics["epoch"] == 1
        assert 0 < job.metrics["validation_top1"] <= 1


def test_models_are_stored_in_the_region_that_trained_them_and_downloaded(
    trained: SubmissionStatus, plane: ControlPlane, tmp_path: Path
) -> None:
    for job in trained.jobs[:2]:
        assert job.artifact.startswith(f"s3://traingrid-output-123456789012-{job.region}/{trained.submission}/")
        (folder,) = tg.Submission(tg.Grid(plane), trained.submission).download(tmp_path, job.index)
        assert folder == tmp_path / f"{trained.submission}-{job.index}"
        assert list(folder.rglob("saved_model.pb")) != []


def test_a_failed_training_records_its_reason_and_other_lines_complete(
    trained: SubmissionStatus, plane: ControlPlane
) -> None:
    broken = trained.jobs[2]
    assert broken.state == "Failed"
    assert broken.reason.startswith("AlgorithmError")
    assert trained.batch_state == "FAILED"
    children = list(plane.batch.children(trained.batch_job, 3))
    assert [child["status"] for child in children] == ["SUCCEEDED", "SUCCEEDED", "FAILED"]
    assert children[2]["container"]["exitCode"] == 1
    assert len(children[2]["attempts"]) == 1


def test_a_boto3_client_can_read_children_training_jobs_and_logs(
    trained: SubmissionStatus, plane: ControlPlane
) -> None:
    for index, job in enumerate(trained.jobs[:2]):
        described = client("sagemaker", job.region).describe_training_job(TrainingJobName=job.training_job)
        assert described["TrainingJobStatus"] == "Completed"
        child = list(plane.batch.children(trained.batch_job, 3))[index]
        group = child["container"]["logConfiguration"]["options"]["awslogs-group"]
        stream = child["container"]["logStreamName"]
        events = client("logs", "us-east-1").get_log_events(logGroupName=group, logStreamName=stream)["events"]
        messages = [event["message"] for event in events]
        assert any("validation_top1=" in line for line in messages)
        assert any(f"{job.training_job}: Completed" in line for line in messages)


def test_one_training_job_was_created_for_each_line(trained: SubmissionStatus, cloud: LocalCloud) -> None:
    created = [
        entry["parameters"]["TrainingJobName"]
        for entry in cloud.record.entries()
        if entry["action"] == "CreateTrainingJob" and trained.submission in json.dumps(entry["parameters"])
    ]
    assert sorted(created) == sorted(job.training_job for job in trained.jobs)


def test_the_reconciler_makes_no_changes_and_the_audit_finds_no_violations(
    trained: SubmissionStatus, plane: ControlPlane, cloud: LocalCloud
) -> None:
    home = plane.deployment.grid.home
    stack = client("cloudformation", home).describe_stacks(StackName="traingrid-control")["Stacks"][0]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    reply = client("lambda", home).invoke(
        FunctionName=outputs["ReconcileFunction"], Payload=json.dumps({"grace_seconds": 0}).encode()
    )
    done = json.loads(reply["Payload"].read())
    assert "FunctionError" not in reply, done
    assert done.pop("history", "complete").startswith("complete")
    nothing: dict[str, Any] = {"recorded": [], "closed": [], "stopped": [], "over_budget": [], "unreachable": {}}
    nothing |= {"left": 0, "lines": {}, "running": 0, "notified": [], "unsent": {}, "released": []}
    assert done == nothing
    world = read_world(
        plane.deployment,
        submission=trained.submission,
        details=True,
        at_rest=True,
        calls=cloud.record.entries(),
    )
    assert [str(violation) for violation in audit(world)] == []


def test_a_retried_child_attaches_to_the_training_job(
    trained: SubmissionStatus, plane: ControlPlane, cloud: LocalCloud
) -> None:
    before = len([entry for entry in cloud.record.entries() if entry["action"] == "CreateTrainingJob"])
    jobs = f"s3://{plane.deployment.manifest_bucket}/submissions/{trained.submission}/jobs.jsonl"
    by_hand = client("batch", "us-east-1").submit_job(
        jobName="by-hand",
        jobQueue=plane.deployment.job_queue,
        jobDefinition=plane.deployment.job_definition,
        containerOverrides={"environment": [{"name": "S3_ARRAY_FILE", "value": jobs}]},
    )["jobId"]
    until(lambda: (plane.batch.describe(by_hand) or {})["status"] in ("SUCCEEDED", "FAILED"))
    described = plane.batch.describe(by_hand)
    assert described is not None
    assert described["status"] == "SUCCEEDED"
    after = len([entry for entry in cloud.record.entries() if entry["action"] == "CreateTrainingJob"])
    assert after == before
