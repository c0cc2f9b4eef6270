"""The check-up of a grid of two accounts before its first deployment: each account's people see their own half."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcloud.isolation import user_environment
from localcloud.server import LocalCloud
from localcloud.settings import Settings
from traingrid.cli.main import cli
from traingrid.clients import client, renew
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
    """Run the command as a user of an account, and return what it prints."""

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


def test_home_looks_at_its_own_regions_and_names_whose_profile_looks_at_the_other(
    doctor: Callable[[str], str],
) -> None:
    said = doctor("")
    assert f"us-east-1 bootstrap: npx cdk bootstrap aws://{HOME}/us-east-1\n" in said
    assert f"us-west-2 bootstrap: npx cdk bootstrap aws://{HOME}/us-west-2\n" in said
    assert f"us-east-1 account {OTHER}: AWS_PROFILE=<a profile of account {OTHER}> traingrid doctor" in said
    assert f"aws://{OTHER}" not in said
    assert "us-east-1 stack doctored-us-east-1" not in said, "it is not home's to look for"
    assert "1 could not be checked" in said


def test_stacks_that_a_region_left_where_it_was_before_are_named(doctor: Callable[[str], str]) -> None:
    doctor("")
    template = '{"Resources": {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}}'
    for name in ("doctored-us-east-1", "doctored-us-west-2"):
        client("cloudformation", name.removeprefix("doctored-")).create_stack(StackName=name, TemplateBody=template)
    said = doctor("")
    assert "stack doctored-us-east-1: aws cloudformation delete-stack --region us-east-1" in said
    assert "delete-stack --region us-west-2" not in said, "where the grid has it still"


def test_the_other_account_sees_its_half_and_how_it_lets_home_deploy_there(doctor: Callable[[str], str]) -> None:
    said = doctor(OTHER)
    assert f"us-east-1 bootstrap: npx cdk bootstrap aws://{OTHER}/us-east-1 {TRUSTING}\n" in said
    assert "us-east-1 stack doctored-us-east-1: npx cdk deploy --all" in said
    assert "us-east-1 stack doctored-registry-us-east-1: npx cdk deploy --all" in said
    assert f"us-west-2 account {HOME}: AWS_PROFILE=<a profile of account {HOME}> traingrid doctor" in said
    assert "doctored-control" not in said
    assert "2 could not be checked" in said
