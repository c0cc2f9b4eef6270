"""Deployed grid: errors when AWS cannot be reached."""

from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError

from traingrid.cli import deployed
from traingrid.errors import TraingridError


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
    assert error.value.next_step == "Check the network and AWS_ENDPOINT_URL; for a local AWS: traingrid local status."
