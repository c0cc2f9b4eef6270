"""The end of a mixed grid: its cluster is deleted, and then the grid. No other test of this folder can follow."""

import json

from tests.e2e.kubernetes.world import JOBS, MPI, World, until
from traingrid.aws.clients import client
from verification.checkout.deploy import run_cdk


def test_a_deleted_cluster_fails_its_lines_and_a_destroyed_grid_holds_no_objects(world: World) -> None:
    client("eks", MPI).delete_cluster(name="research")
    submission = world.submit(world.line(MPI, "gone", backend="eks"), world.line(JOBS, "other"))
    until(lambda: submission.status().ended)
    assert world.states(submission) == {"gone": "Failed", "other": "Completed"}
    assert "There is no EKS cluster research in us-east-1." in world.reasons(submission)["gone"]
    assert [item for item in world.objects(JOBS, submission) if item["metadata"].get("finalizers")]
    work = world.grid_file.parent
    run_cdk(world.cloud.endpoint_url, work, "destroy", "--all", "--force", "--app", str(work / "cdk.out"))
    left = json.loads(world.kubectl(JOBS, "get", "jobs", "-o", "json"))["items"]
    assert [item["metadata"]["name"] for item in left if item["metadata"].get("finalizers")] == []
