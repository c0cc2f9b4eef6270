"""Other accounts: their settings in grid.yaml, the names of their resources, and the roles that are assumed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from traingrid.aws.clients import ActingRole, client, client_without_retries, renew
from traingrid.aws.s3 import Storage
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridError, GridSettings
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

HOME, OTHER = "123456789012", "210987654321"
TWO = f"""\
name: traingrid
home: us-east-1
account: "{HOME}"
regions:
  us-east-1: {{account: "{OTHER}"}}
  us-west-2:
  eu-west-1: {{account: "{HOME}"}}
images:
  resnet: {{repository: training, tag: "1"}}
job:
  image: resnet
  instance_type: ml.g5.48xlarge
"""
KEYS = "encryption: {kind: kms, keys: {%s}}\n"


def key(region: str, account: str) -> str:
    return f'{region}: "arn:aws:kms:{region}:{account}:key/1234abcd-12ab-34cd-56ef-1234567890ab"'


def loaded(folder: Path, text: str) -> GridSettings:
    (folder / "grid.yaml").write_text(text)
    return load_grid(folder / "grid.yaml")


@pytest.fixture
def two(tmp_path: Path) -> Deployment:
    """A grid that trains in the home Region in another account, and in two Regions in the home account."""
    grid = loaded(tmp_path, TWO)
    bucket = f"traingrid-manifests-{HOME}-us-east-1"
    return Deployment(grid=grid, account=HOME, table="ledger", manifest_bucket=bucket)


def test_a_region_with_the_home_account_is_not_in_another_account(two: Deployment) -> None:
    assert two.grid.other_accounts() == {"us-east-1": OTHER}
    assert two.grid.at_home() == ["us-west-2", "eu-west-1"]
    assert two.grid.replicas() == ["us-east-1", "us-west-2", "eu-west-1"]
    assert GridSettings.from_environment(two.grid.to_environment()).other_accounts() == {"us-east-1": OTHER}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TWO.replace(f'account: "{HOME}"\nregions', "regions"), "grid.yaml:4: regions.us-east-1: roles in that acc"),
        (TWO.replace(f'account: "{HOME}"\nregions', "regions"), "set the grid's `account`, too"),
        (TWO.replace(f'"{OTHER}"', OTHER), "regions.us-east-1.account: 210987654321 is not allowed: this must be text"),
        (TWO.replace(OTHER, "2109"), "regions.us-east-1.account: '2109' is not allowed: it must have the form ^[0-9]{"),
        (TWO.replace(OTHER, "2109"), 'Write for example `account: "210987654321"`: AWS account of this Region'),
        (
            TWO.replace(f' {{account: "{OTHER}"}}', "")
            + KEYS % ", ".join([key("us-east-1", HOME), key("us-west-2", OTHER), key("eu-west-1", HOME)]),
            f"encryption: the key of us-west-2 is in account {OTHER}, but its data is in account {HOME}; use a key of",
        ),
        (
            TWO + KEYS % ", ".join([key("us-east-1", HOME), key("us-west-2", HOME), key("eu-west-1", HOME)]),
            f"the key of us-east-1 is in account {HOME}, but its data is in account {HOME}, {OTHER}; use a key of that",
        ),
    ],
)
def test_an_impossible_mix_of_accounts_is_refused_with_key_rule_and_remedy(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(GridError) as raised:
        loaded(tmp_path, text)
    assert sentence in "\n".join(raised.value.problems)


def test_keys_of_the_accounts_that_use_them_are_accepted(tmp_path: Path) -> None:
    apart = TWO.replace("us-east-1: {", "ap-south-1: {")
    named = [key("us-east-1", HOME), key("ap-south-1", OTHER), key("us-west-2", HOME), key("eu-west-1", HOME)]
    assert loaded(tmp_path, apart + KEYS % ", ".join(named)).encryption.keys.keys() >= {"ap-south-1"}


def test_names_of_a_regions_resources_contain_its_account(two: Deployment) -> None:
    line = f"region,s3_uri\nus-east-1,s3://traingrid-data-{OTHER}-us-east-1/x\n".encode()
    (job,) = jobs_of_lines(parse(line, two), two, "0123abcd")
    assert job.image == f"{OTHER}.dkr.ecr.us-east-1.amazonaws.com/traingrid/training:1"
    assert job.output == f"s3://traingrid-output-{OTHER}-us-east-1/0123abcd/0/"
    assert two.execution_role_arn("us-east-1") == f"arn:aws:iam::{OTHER}:role/traingrid-execution-us-east-1"
    assert two.bucket_regions() == {
        f"traingrid-data-{OTHER}-us-east-1": "us-east-1",
        f"traingrid-data-{HOME}-us-west-2": "us-west-2",
        f"traingrid-data-{HOME}-eu-west-1": "eu-west-1",
    }


@pytest.mark.parametrize("part", ["launch", "record", "sweep", "use"])
def test_a_part_assumes_a_role_only_in_other_accounts(two: Deployment, part: Any) -> None:
    variables = {
        "TRAINGRID_GRID": two.grid.to_environment(),
        "TRAINGRID_ACCOUNT": HOME,
        "TRAINGRID_TABLE": "ledger",
        "TRAINGRID_MANIFEST_BUCKET": two.manifest_bucket,
    }
    deployment = Deployment.from_environment(variables, part)
    assert deployment.acting_role_in("us-west-2") is deployment.acting_role_in("eu-west-1") is None
    role = deployment.acting_role_in("us-east-1")
    assert role is not None
    assert role.arn == f"arn:aws:iam::{OTHER}:role/traingrid-{part}-us-east-1"
    assert role.home == "us-east-1"


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two empty accounts in this process; the environment has credentials of the first."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        renew()
        yield
    renew()


def whose(role: ActingRole | None) -> str:
    return str(client("sts", "us-east-1", role).get_caller_identity()["Account"])


@pytest.mark.usefixtures("accounts")
def test_a_client_with_a_role_uses_the_roles_account(two: Deployment) -> None:
    assert (whose(None), whose(two.acting_role_in("us-east-1"))) == (HOME, OTHER)
    jobs = SageMakerInventory(two, "us-east-1")
    assert list(jobs.listed()) == []
    Storage("us-east-1")._s3.create_bucket(Bucket="at-home")
    seen = Storage("us-east-1", role=two.acting_role_in("us-east-1"))._s3.list_buckets()["Buckets"]
    assert (seen, len(Storage("us-east-1")._s3.list_buckets()["Buckets"])) == ([], 1)


@pytest.mark.usefixtures("accounts")
def test_credentials_are_shared_by_clients_and_renewed_before_they_expire(
    two: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    lives = [timedelta(minutes=5), timedelta(hours=1)]  # botocore renews credentials ten minutes before they expire
    assume = boto3.client("sts").assume_role(RoleArn=f"arn:aws:iam::{OTHER}:role/x", RoleSessionName="test")

    class Sts:
        def assume_role(self, **request: str) -> dict[str, Any]:
            asked.append(request["RoleArn"])
            expires = datetime.now(UTC) + lives[min(len(asked), len(lives)) - 1]
            return {"Credentials": {**assume["Credentials"], "Expiration": expires}}

    role = two.acting_role_in("us-east-1")
    monkeypatch.setattr("traingrid.aws.clients.periodic_client", lambda *_: Sts())
    made = [client("s3", "us-east-1", role), client_without_retries("s3", "us-east-1", role)]
    for s3 in (*made, *made):
        s3.list_buckets()
    assert asked == [f"arn:aws:iam::{OTHER}:role/traingrid-use-us-east-1"] * 2


@pytest.mark.usefixtures("accounts")
def test_renewing_credentials_in_a_thread_creates_no_client(two: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 cannot create clients in several threads, and a sweep lists all Regions in parallel."""
    s3 = client("s3", "us-east-1", two.acting_role_in("us-east-1"))
    made: list[str] = []
    monkeypatch.setattr("traingrid.aws.clients._create_client", lambda _session, service, *_: made.append(service))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(s3.list_buckets).result()["Buckets"] == []
    assert made == []


@pytest.mark.usefixtures("accounts")
def test_a_new_client_renews_expired_credentials(two: Deployment) -> None:
    role = two.acting_role_in("us-east-1")
    before = client("sts", "us-east-1", role)._get_credentials().access_key
    assert client("s3", "us-east-1", role)._get_credentials().access_key == before
    renew()
    assert client("s3", "us-east-1", role)._get_credentials().access_key != before
