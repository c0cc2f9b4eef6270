"""Deployed grid: errors when AWS cannot be reached."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.sample_grid import GOOD
from traingrid.api import deployed
from traingrid.errors import TraingridError
from traingrid.grid.file import load_grid


def test_an_unreachable_address_is_not_reported_as_missing_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def client(*_: object) -> object:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    monkeypatch.setattr(deployed, "client", client)
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "name: g\nhome: us-east-1\nregions:\n  us-east-1:\norchestrator: {image_tag: '1'}\n"
        "images:\n  resnet: {repository: training, tag: '1'}\njob: {image: resnet, instance_type: ml.m5.large}\n"
    )
    with pytest.raises(TraingridError) as error:
        deployed.find_deployment(grid)
    assert "AWS in us-east-1 does not answer: Could not connect to the endpoint URL" in error.value.what
    assert (
        error.value.next_step
        == "Check the network and AWS_ENDPOINT_URL; a local AWS must still run (traingrid local status)."
    )


class Stacks:
    """CloudFormation with one stack."""

    def __init__(self, outputs: dict[str, str]) -> None:
        self._outputs = [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        return {"Stacks": [{"StackStatus": "CREATE_COMPLETE", "Outputs": self._outputs}]}


@pytest.mark.parametrize("endpoint", ["abc.dsql.us-east-1.on.aws", None])
def test_the_cluster_is_that_of_the_stack(
    endpoint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = {"IntakeFunction": "intake"} | ({"CatalogEndpoint": endpoint} if endpoint else {})
    monkeypatch.setattr(deployed, "client", lambda *_: Stacks(outputs))
    (tmp_path / "grid.yaml").write_text(f"{GOOD}catalog: dsql\n")
    grid = load_grid(tmp_path / "grid.yaml")
    if endpoint:
        assert deployed.find_cluster(grid) == endpoint
        return
    with pytest.raises(TraingridError, match=r"deployed without `catalog: dsql`.*npx cdk deploy --all"):
        deployed.find_cluster(grid)
