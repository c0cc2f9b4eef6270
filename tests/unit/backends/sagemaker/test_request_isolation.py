"""Confinement: grid.yaml's settings for every training job: network, isolation, encryption, maximum runtime."""

from dataclasses import replace
from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from tests.support.sample_deployment import ACCOUNT, sample_deployment
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backends.sagemaker.request import confined, fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

REGION = "us-east-1"
DATA = f"s3://traingrid-data-{ACCOUNT}-{REGION}"
SOURCE = f"{DATA}/sources/0a1b.tar.gz"
VPC = {"subnets": ["subnet-0123456789abcdef0", "subnet-00000001"], "security_groups": ["sg-00000001"]}


def deployment(training: dict[str, Any], region: dict[str, Any] | None = None) -> Deployment:
    known = sample_deployment()
    described = {**known.grid.model_dump(mode="json"), "regions": {REGION: region or {}}, "training": training}
    return Deployment(
        grid=GridSettings.model_validate(described),
        account=ACCOUNT,
        table="ledger",
        manifest_bucket=known.manifest_bucket,
        job_queue="queue",
        job_definition="definition",
    )


def request(where: Deployment, line: str = f"region,s3_uri\n{REGION},{DATA}/campaign\n") -> dict[str, Any]:
    (job,) = jobs_of_lines(parse(line.encode(), where), where, "0123abcd")
    plain = training_job_request("traingrid-0123abcd-0-1", job, where.execution_role_arn(REGION), {"a": "b"})
    return confined(plain, where.grid.training, where.grid.regions[REGION])


SCRIPT = f"region,s3_uri,source,entry_point\n{REGION},{DATA}/campaign,{SOURCE},train.py\n"


def refusals(where: Deployment, text: str) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        parse(text.encode(), where)
    return [f"{error.field}: {error.reason} {error.next_step}" for error in raised.value.errors]


def test_only_traffic_encryption_is_requested_by_default() -> None:
    asked = request(deployment({}))
    assert asked["EnableInterContainerTrafficEncryption"] is True
    assert not {"VpcConfig", "EnableNetworkIsolation"} & asked.keys()
    assert "EnableInterContainerTrafficEncryption" not in request(deployment({"encrypt_traffic": False}))


YOURS = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.mark.parametrize(
    ("encryption", "key"),
    [
        ({}, None),
        ({"kind": "kms"}, f"arn:aws:kms:{REGION}:{ACCOUNT}:alias/traingrid"),
        ({"kind": "kms", "keys": {REGION: YOURS}}, YOURS),
    ],
)
@pytest.mark.usefixtures("aws")
def test_results_are_encrypted_with_the_key_of_the_region(encryption: dict[str, Any], key: str | None) -> None:
    where = deployment({})
    described = {**where.grid.model_dump(mode="json"), "encryption": encryption}
    keyed = replace(where, grid=GridSettings.model_validate(described))
    (job,) = jobs_of_lines(parse(f"{REGION},{DATA}/campaign\n".encode(), keyed), keyed, "0123abcd")
    backend = SageMaker(keyed, REGION)
    asked = backend._creation.request("traingrid-0123abcd-0-1", job, {})
    assert asked["OutputDataConfig"].get("KmsKeyId") == key


def test_a_job_runs_in_the_vpc_of_its_region() -> None:
    asked = request(deployment({}, VPC))
    assert asked["VpcConfig"] == {"Subnets": VPC["subnets"], "SecurityGroupIds": VPC["security_groups"]}


@pytest.mark.parametrize("line", [None, SCRIPT])
def test_a_request_is_one_that_the_service_model_accepts(line: str | None) -> None:
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    where = deployment({"network_isolation": True}, VPC)
    validate_parameters(request(where, line) if line else request(where), shape)


def test_isolated_jobs_get_their_source_as_a_channel_and_no_tensorboard() -> None:
    with_network, without = request(deployment({}), SCRIPT), request(deployment({"network_isolation": True}), SCRIPT)
    assert without["EnableNetworkIsolation"] is True
    assert with_network["HyperParameters"]["sagemaker_submit_directory"] == SOURCE
    assert without["HyperParameters"]["sagemaker_submit_directory"] == "/opt/ml/input/data/code/0a1b.tar.gz"
    (code,) = [channel for channel in without["InputDataConfig"] if channel["ChannelName"] == "code"]
    assert code["DataSource"]["S3DataSource"]["S3Uri"] == SOURCE
    assert code["InputMode"] == "File"
    assert "TRAINGRID_TENSORBOARD" in with_network["Environment"]
    assert "Environment" not in without


def test_a_line_without_a_source_gets_no_code_channel() -> None:
    assert [
        channel["ChannelName"] for channel in request(deployment({"network_isolation": True}))["InputDataConfig"]
    ] == [
        "train",
        "validation",
    ]


def test_the_code_channel_of_a_source_counts_and_its_name_is_reserved() -> None:
    channels = ",".join(f"input.c{number}" for number in range(20))
    uris = ",".join([f"{DATA}/x"] * 20)
    many = f"region,source,entry_point,{channels}\n{REGION},{SOURCE},train.py,{uris}\n"
    parse(many.encode(), deployment({}))
    assert "the job has 21 channels" in refusals(deployment({"network_isolation": True}), many)[0]
    same = f"region,source,entry_point,input.code\n{REGION},{SOURCE},train.py,{DATA}/x\n"
    parse(same.encode(), deployment({}))
    (refusal,) = refusals(deployment({"network_isolation": True}), same)
    assert refusal.startswith("inputs: with network isolation, the line's source uses the channel name code")


@pytest.mark.parametrize(
    ("training", "region"),
    [
        ({"network_isolation": True}, {}),
        ({"encrypt_traffic": False}, {}),
        ({}, VPC),
        ({}, {**VPC, "subnets": VPC["subnets"][:1]}),
        ({}, {**VPC, "security_groups": ["sg-00000002"]}),
    ],
)
def test_a_fingerprint_depends_on_the_confinement(training: dict[str, Any], region: dict[str, Any]) -> None:
    others = [request(deployment({})), request(deployment({"network_isolation": True}, VPC))]
    assert fingerprint(request(deployment(training, region))) not in [fingerprint(other) for other in others]


def test_a_fingerprint_ignores_order_and_explicit_defaults() -> None:
    asked = request(deployment({}, VPC))
    network = {**asked["VpcConfig"], "Subnets": asked["VpcConfig"]["Subnets"][::-1]}
    described = {**asked, "VpcConfig": network, "EnableNetworkIsolation": False}
    assert fingerprint(described) == fingerprint(asked)


def test_a_fingerprint_without_confinement_is_unchanged() -> None:
    asked = request(deployment({"encrypt_traffic": False}))
    described = {**asked, "EnableInterContainerTrafficEncryption": False, "EnableNetworkIsolation": False}
    bare = {key: value for key, value in described.items() if not key.startswith("Enable")}
    assert fingerprint(described) == fingerprint(bare) == fingerprint(asked)


def test_a_runtime_beyond_the_grids_limit_is_refused() -> None:
    where = deployment({"max_runtime": "2d"})
    line = f"region,s3_uri,max_runtime\n{REGION},{DATA}/campaign,{{}}\n"
    assert request(where, line.format("48h"))["StoppingCondition"]["MaxRuntimeInSeconds"] == 172800
    (refusal,) = refusals(where, line.format("49h"))
    assert refusal.startswith("max_runtime: must be at most 172800 s, the limit of this grid Reduce it")


@pytest.mark.parametrize(("owner", "isolated"), [("865070037744", True), (ACCOUNT, False)])
def test_an_algorithm_of_another_account_runs_without_a_network(owner: str, isolated: bool) -> None:
    """It is one of AWS Marketplace, for which SageMaker requires isolation."""
    arn = f"arn:aws:sagemaker:{REGION}:{owner}:algorithm/forest"
    where = deployment({})
    grid = GridSettings.model_validate({**where.grid.model_dump(mode="json"), "algorithms": [arn]})
    asked = request(replace(where, grid=grid), f"region,s3_uri,algorithm\n{REGION},{DATA}/campaign,{arn}\n")
    assert asked["AlgorithmSpecification"] == {"AlgorithmName": arn, "TrainingInputMode": "File"}
    assert asked.get("EnableNetworkIsolation", False) == isolated
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    validate_parameters(asked, shape)
