"""Algorithm resources from the manifest to the end: checked before the upload, trained in a local AWS."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.control_plane.account import HOME, TRAINS, Account
from tests.integration.localcloud.compute import ACCOUNT, image, wait_until
from traingrid import names
from traingrid.api.submit import submit_manifest
from traingrid.aws.clients import client
from traingrid.errors import TraingridError
from traingrid.grid.model import GridSettings
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import intact


@pytest.fixture
def algorithm(account: Account) -> str:
    """Return the ARN of an algorithm that the account's grid allows, and upload the data of a line."""
    seconds = {"IntegerParameterRangeSpecification": {"MinValue": "0", "MaxValue": "5"}}
    training = {
        "TrainingImage": image(client("ecr", HOME), "waiting-algorithm", TRAINS + "; print('loss=0.5;')"),
        "SupportedHyperParameters": [{"Name": "seconds", "Type": "Integer", "Range": seconds, "IsRequired": True}],
        "SupportedTrainingInstanceTypes": ["ml.m5.large"],
        "SupportsDistributedTraining": True,
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+);"}],
        "TrainingChannels": [
            {"Name": "train", "IsRequired": True, "SupportedContentTypes": [], "SupportedInputModes": ["File"]}
        ],
    }
    client("s3", HOME).create_bucket(Bucket=names.output_bucket("traingrid", ACCOUNT, HOME))
    arn = client("sagemaker", HOME).create_algorithm(AlgorithmName="waiting", TrainingSpecification=training)
    grid = {
        **account.deployment.grid.model_dump(mode="json", exclude_defaults=True),
        "algorithms": [arn["AlgorithmArn"]],
    }
    account.deployment = replace(
        account.deployment, grid=GridSettings.model_validate(grid), job_definition="of-algorithms"
    )
    return str(arn["AlgorithmArn"])


def line(account: Account, algorithm: str, seconds: int) -> str:
    inputs = {"train": f"s3://{account.data(HOME)}/x/train/"}
    return json.dumps(
        {"region": HOME, "algorithm": algorithm, "inputs": inputs, "hyperparameters": {"seconds": seconds}}
    )


def test_a_line_is_checked_against_the_algorithm_and_trains(account: Account, algorithm: str, tmp_path: Path) -> None:
    manifest = tmp_path / "wrong.jsonl"
    manifest.write_text(line(account, algorithm, 9))
    with pytest.raises(TraingridError, match=r"hyperparameters\.seconds '9': out of range.*at most 5"):
        submit_manifest(manifest, account.deployment)
    submission = account.accept(line(account, algorithm, 0))
    wait_until(lambda: [job.state in FINAL_STATES for job in intact(account.ledger.jobs(submission))] == [True])
    (job,) = intact(account.ledger.jobs(submission))
    assert (job.state, job.reason) == ("Completed", "")
    described = account.described(names.training_job("traingrid", submission, 0, 1))
    assert described["AlgorithmSpecification"]["AlgorithmName"] == algorithm
    assert [metric["MetricName"] for metric in described["FinalMetricDataList"]] == ["loss"]
