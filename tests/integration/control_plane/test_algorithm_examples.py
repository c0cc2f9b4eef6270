"""Examples of built-in algorithms: each manifest is planned, submitted and trained in a local AWS."""

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.control_plane.account import HOME, Account
from tests.integration.localcloud.compute import ACCOUNT, wait_until
from traingrid import names
from traingrid.algorithms.built_in import built_in
from traingrid.aws.clients import client
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.grid.framework_images import FrameworkImage
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import intact
from traingrid.manifest.parse import parse
from traingrid.manifest.plan import planned

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples/algorithms"
METRICS = {
    "image-classification": "validation:accuracy",
    "object-detection": "validation:mAP",
    "xgboost": "validation:rmse",
}


def deployed(account: Account, example: str) -> Deployment:
    """Return the deployment of an example's grid, with the images that `cdk synth` finds."""
    grid = load_grid(EXAMPLES / example / "grid.yaml")
    found = {}
    for alias, image in grid.images.items():
        known = built_in(image.algorithm or "", image.version or "")
        assert known
        found[alias] = FrameworkImage.of_uris({region: known.uri(region) for region in grid.regions})
    return replace(account.deployment, grid=grid, frameworks=found, job_definition=f"orchestrator-of-{example}")


def upload(account: Account, deployment: Deployment, folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "examples.algorithms.write_data", str(folder)], cwd=ROOT, check=True)
    for region in deployment.grid.regions:
        where = {} if region == HOME else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3 = client("s3", region)
        with suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # us-east-1 accepts it again
            s3.create_bucket(Bucket=names.output_bucket("traingrid", ACCOUNT, region), **where)
        for path in (path for path in folder.rglob("*") if path.is_file()):
            key = path.relative_to(folder).as_posix()
            s3.put_object(Bucket=account.data(region), Key=key, Body=path.read_bytes())


@pytest.mark.parametrize("example", METRICS)
def test_an_example_is_planned_and_trains(account: Account, example: str, tmp_path: Path) -> None:
    account.deployment = deployment = deployed(account, example)
    content = (EXAMPLES / example / "manifest.jsonl").read_text()
    upload(account, deployment, tmp_path)
    lines = parse(content.encode(), deployment)
    assert [line.outcome for line in planned(lines, deployment)] == ["would train"] * 2
    submission = account.accept(content)
    wait_until(
        lambda: [job.state in FINAL_STATES for job in intact(account.ledger.jobs(submission))] == [True] * 2,
    )
    assert [(job.state, job.reason) for job in intact(account.ledger.jobs(submission))] == [("Completed", "")] * 2
    for index, region in enumerate(deployment.grid.regions):
        described = account.described(names.training_job("traingrid", submission, index, 1), region)
        assert [metric["MetricName"] for metric in described["FinalMetricDataList"]] == [METRICS[example]]
        assert "Environment" not in described
