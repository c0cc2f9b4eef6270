"""Doctor on a grid of two accounts before its first deployment: the users of each account see their own half."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.aws.clients import client, renew
from traingrid.cli.main import cli
from traingrid.errors import TraingridError

HOME, OTHER = "123456789012", "210987654321"
GRID = f"""\
name: doctored
home: us-east-1
account: "{HOME}"
regions:
  us-east-1: {{account: "{OTHER}"}}
  us-west-2:
images: {{resnet: {{repository: training, tag: "1"}}}}
job: {{image: resnet, instance_type: ml.m5.large}}
"""
TRUSTING = "--trust 123456789012 --cloudformation-execution-policies arn:aws:iam::aws:policy/AdministratorAccess"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(Settings(data_dir=tmp_path_factory.mktemp("accounts"))) as running:
        yield running


@pytest.fixture
def doctor(
    cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[str], str]]:
    """Return a function that runs the command as a user of an account, and returns its output."""

    def of(account: str) -> str:
        for name, value in user_environment(cloud.endpoint_url, account_id=account).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("COLUMNS", "250")
        renew()
        (tmp_path / "grid.yaml").write_text(GRID)
        with pytest.raises(TraingridError):
            cli.main(["--grid", str(tmp_path / "grid.yaml"), "doctor"], standalone_mode=False)
        return capsys.readouterr().out

    yield of
    renew()


def test_the_home_account_checks_its_regions_and_names_the_other_accounts_profile(
    doctor: Callable[[str], str],
) -> None:
    output = doctor("")
    assert f"us-east-1 bootstrap: npx cdk bootstrap aws://{HOME}/us-east-1\n" in output
    assert f"us-west-2 bootstrap: npx cdk bootstrap aws://{HOME}/us-west-2\n" in output
    profile = f"AWS_PROFILE=<a profile of account {OTHER}>"
    assert re.search(rf"us-east-1 account {OTHER}: {profile} traingrid --grid \S+/grid.yaml doctor\n", output)
    assert f"aws://{OTHER}" not in output
    assert "us-east-1 stack doctored-us-east-1" not in output, "the other account has this stack"
    assert "1 could not be checked" in output


def test_stacks_in_the_previous_account_of_a_region_are_reported(doctor: Callable[[str], str]) -> None:
    doctor("")
    template = '{"Resources": {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}}'
    for name in ("doctored-us-east-1", "doctored-us-west-2"):
        client("cloudformation", name.removeprefix("doctored-")).create_stack(StackName=name, TemplateBody=template)
    output = doctor("")
    assert "stack doctored-us-east-1: aws cloudformation delete-stack --region us-east-1" in output
    assert "delete-stack --region us-west-2" not in output, "the grid still has this Region in the account"


def test_the_other_account_sees_its_half_and_how_to_trust_the_home_account(doctor: Callable[[str], str]) -> None:
    output = doctor(OTHER)
    assert f"us-east-1 bootstrap: npx cdk bootstrap aws://{OTHER}/us-east-1 {TRUSTING}\n" in output
    assert "us-east-1 stack doctored-us-east-1: npx cdk deploy --all" in output
    assert "us-east-1 stack doctored-registry-us-east-1: npx cdk deploy --all" in output
    profile = f"AWS_PROFILE=<a profile of account {HOME}>"
    assert re.search(rf"us-west-2 account {HOME}: {profile} traingrid --grid \S+/grid.yaml doctor\n", output)
    assert "doctored-control" not in output
    assert "2 could not be checked" in output
