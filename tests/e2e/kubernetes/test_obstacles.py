"""Lines of a cluster that meet an obstacle, and train after it is gone: a permission, a quota, a name, a lost node."""

import json
import re

from tests.e2e.kubernetes.world import JOBS, PROGRAM, World, data, until
from traingrid import names


def test_a_missing_permission_fails_the_line_and_a_retry_trains_it(world: World) -> None:
    world.kubectl(JOBS, "delete", "rolebinding", "traingrid-traingrid-launch")
    submission = world.submit(world.line(JOBS, "refused"), world.line(JOBS, "sagemaker", backend="sagemaker"))
    until(lambda: submission.status().ended)
    assert world.states(submission) == {"refused": "Failed", "sagemaker": "Completed"}
    reason = world.reasons(submission)["refused"]
    assert re.search(rf"then `traingrid eks access {JOBS} \| kubectl --context \S+ apply -f -`\.$", reason)
    world.give_access(JOBS)
    world.traingrid("retry", submission.id)
    until(lambda: submission.status().ended)
    assert world.states(submission)["refused"] == "Completed"


def test_a_line_waits_for_the_quota_of_the_namespace(world: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    world.apply(JOBS, {**quota, "spec": {"hard": {"pods": "0"}}})
    try:
        submission = world.submit(world.line(JOBS, "waits"), world.line(JOBS, "other", backend="sagemaker"))
        until(lambda: world.states(submission).get("other") == "Completed")
        until(lambda: "used up" in world.reasons(submission)["waits"])
        assert "`kubectl describe resourcequota -n training` shows it." in world.reasons(submission)["waits"]
    finally:
        world.kubectl(JOBS, "delete", "resourcequota", "small")
    until(lambda: submission.status().ended)
    assert world.states(submission)["waits"] == "Completed"


def test_an_object_of_another_program_fails_the_line_and_is_left_alone(world: World) -> None:
    world.traingrid("pause", "--reason", "an experiment")
    submission = world.submit(world.line(JOBS, "taken"), world.line(JOBS, "free"))
    name = names.training_job("traingrid", submission.id, 0, 1)
    until(lambda: list(world.states(submission).values()) == ["Waiting", "Waiting"])
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
    foreign = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    world.apply(JOBS, {**foreign, "spec": {"suspend": True, "template": {"spec": pod}}})
    world.traingrid("resume")
    until(lambda: submission.status().ended)
    assert world.states(submission) == {"taken": "Failed", "free": "Completed"}
    assert "has this name, but this grid did not create it." in world.reasons(submission)["taken"]
    world.reconcile()
    assert "finalizers" not in json.loads(world.kubectl(JOBS, "get", "job", name, "-o", "json"))["metadata"]


def test_a_lost_node_is_retried_from_its_checkpoint_and_the_model_trains_another_line(world: World) -> None:
    submission = world.submit(world.line(JOBS, "resumed", 18, launcher="mpi", checkpoints=True, retries=1))
    name = names.training_job("traingrid", submission.id, 0, 1)
    until(lambda: submission.jobs and submission.jobs[0].phase == "Training")
    until(lambda: "epoch=2" in world.kubectl(JOBS, "logs", f"job/{name}", "--container", "train"))
    (pod,) = world.objects(JOBS, submission, "pods")
    world.kubectl(JOBS, "drain", pod["spec"]["nodeName"], "--force", "--ignore-daemonsets", "--delete-emptydir-data")
    until(lambda: submission.status().ended)
    (job,) = submission.jobs
    item = world.plane.ledger.job(submission.id, 0)
    assert item
    assert (job.state, item.attempt, [previous.failure for previous in item.tried]) == ("Completed", 2, ["lost_node"])
    assert re.search("the first epoch is [34]", world.traingrid("logs", submission.id, "0"))
    following = world.submit(world.line(JOBS, "next", init_from=f"{submission.id}/0"))
    until(lambda: following.status().ended)
    assert world.states(following) == {"next": "Completed"}, world.reasons(following)


def test_a_sweep_tries_hyperparameters_on_a_cluster(world: World) -> None:
    spec = {
        "lines": [{"region": JOBS, "s3_uri": data(JOBS), **PROGRAM}],
        "search": {"hp.rate": {"choices": [0.5, 0.0]}},
        "strategy": "grid",
        "objective": {"metric": "loss", "direction": "minimize"},
        "parallel": 2,
    }
    (world.grid_file.parent / "rates.yaml").write_text(json.dumps(spec))
    rows = json.loads(world.traingrid("sweep", "rates.yaml", "--output", "json"))
    assert [(row["state"], row["best"], row["hyperparameters"]["rate"]) for row in rows] == [
        ("Completed", False, 0.5),
        ("Completed", True, 0.0),
    ]
