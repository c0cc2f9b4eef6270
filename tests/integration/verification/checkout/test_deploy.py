from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.credentials import secret
from traingrid.errors import TraingridError
from verification.checkout import deploy


@pytest.fixture
def cdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a checkout whose CDK CLI prints its environment and exits with its argument."""
    program = tmp_path / "node_modules/.bin/cdk"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nenv\necho the last line\nexit "$2"\n')
    program.chmod(0o755)
    monkeypatch.setattr(deploy, "_CHECKOUT", tmp_path)
    with secret.issued("of this server"):
        yield tmp_path


def test_the_cdk_cli_uses_the_local_aws_and_no_user_settings(cdk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "mine")
    deploy.run_cdk("http://127.0.0.1:1", cdk, "synth", "0")
    seen = dict(line.split("=", 1) for line in (cdk / "cdk-synth.log").read_text().splitlines() if "=" in line)
    assert seen["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert seen["CDK_HOME"] == str(cdk / "cdk-home"), "the user's CDK home would cache the account of a key"
    assert "mine" not in {value for name, value in seen.items() if name.startswith("AWS_")}


def test_a_failed_cdk_command_raises_an_error_with_its_last_lines(cdk: Path) -> None:
    with pytest.raises(TraingridError, match=r"(?s)`cdk deploy` failed:.*the last line.*cdk-deploy\.log"):
        deploy.run_cdk("http://127.0.0.1:1", cdk, "deploy", "1")


def test_a_missing_cdk_cli_is_reported_with_the_installation_command(cdk: Path) -> None:
    (cdk / "node_modules/.bin/cdk").unlink()
    with pytest.raises(TraingridError, match="CDK CLI is not installed") as raised:
        deploy.run_cdk("http://127.0.0.1:1", cdk, "deploy", "0")
    assert raised.value.next_step == "Install it: make setup."
