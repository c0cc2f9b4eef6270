"""Conversion of a ModelTrainer: the jobs, and the training jobs that they become, compared with the SDK's own."""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sagemaker.core.shapes import shapes
from sagemaker.core.training.configs import (
    CheckpointConfig,
    Compute,
    InputData,
    OutputDataConfig,
    SourceCode,
    StoppingCondition,
    Tag,
)
from sagemaker.train import ModelTrainer
from sagemaker.train.distributed import MPI, Torchrun

import traingrid as tg
from traingrid.api.job_lines import manifest_of
from traingrid.api.script_folder import stage_folders
from traingrid.backends.sagemaker.request import training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

Trainers = Callable[..., Any]
REGIONS = ["us-east-1", "eu-west-1"]
TEMPLATE = "123456789012.dkr.ecr.{region}.amazonaws.com/traingrid/mine:1"
DATA = {"us-east-1": {"train": "s3://data-iad/train/"}, "eu-west-1": {"train": "s3://data-dub/train/"}}
OUTPUT = "s3://traingrid-output-123456789012-us-east-1"


def jobs(lines: list[dict[str, Any]], deployment: Deployment) -> list[Job]:
    """Return the jobs that the intake would make of lines."""
    rows, _ = stage_folders(lines, deployment)
    return jobs_of_lines(parse(manifest_of(rows), deployment), deployment, "0123abcd")


def archive(line: dict[str, Any]) -> dict[str, str]:
    """Return the texts of the packed files of a line, by name."""
    with tarfile.open(fileobj=io.BytesIO(line["source"].packed()[1])) as members:
        files = {member.name: members.extractfile(member) for member in members}
        return {name: file.read().decode() for name, file in files.items() if file}


@pytest.fixture
def full(trainer: Trainers) -> Any:
    """A trainer that uses everything that can be converted for an image."""
    train = shapes.Channel(
        channel_name="train",
        data_source=shapes.DataSource(
            s3_data_source=shapes.S3DataSource(
                s3_data_type="S3Prefix", s3_uri="s3://data-iad/train/", s3_data_distribution_type="ShardedByS3Key"
            )
        ),
        input_mode="Pipe",
        content_type="application/x-recordio",
        shuffle_config=shapes.ShuffleConfig(seed=7),
    )
    listed = shapes.S3DataSource(s3_data_type="ManifestFile", s3_uri="s3://data-iad/list.manifest")
    augmented = shapes.Channel(
        channel_name="augmented",
        data_source=shapes.DataSource(
            s3_data_source=shapes.S3DataSource(
                s3_data_type="AugmentedManifestFile",
                s3_uri="s3://data-iad/labels.jsonl",
                attribute_names=["source-ref", "label"],
            )
        ),
        input_mode="Pipe",
        record_wrapper_type="RecordIO",
    )
    found = trainer(
        base_job_name="mine",
        distributed=MPI(process_count_per_node=8, mpi_additional_options=["-x", "NCCL_DEBUG=INFO"]),
        compute=Compute(
            instance_type="ml.p3.16xlarge", instance_count=2, volume_size_in_gb=50, enable_managed_spot_training=True
        ),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=7200, max_wait_time_in_seconds=9000),
        hyperparameters={"lr": 1e-5, "epochs": 3, "nested": {"a": [1, None]}, "fast": True, "note": "x y"},
        environment={"SEED": "7"},
        tags=[Tag(key="team", value="perception")],
        training_input_mode="FastFile",
        input_data_config=[
            train,
            augmented,
            InputData(channel_name="plain", data_source="s3://data-iad/plain/", content_type="text/csv"),
            InputData(channel_name="listed", data_source=listed),
        ],
        checkpoint_config=CheckpointConfig(s3_uri=f"{OUTPUT}/checkpoints"),
        output_data_config=OutputDataConfig(s3_output_path=f"{OUTPUT}/results"),
    )
    definition = shapes.MetricDefinition(name="loss", regex="loss=([0-9.]+)")
    return found.with_metric_definitions([definition]).with_retry_strategy(
        shapes.RetryStrategy(maximum_retry_attempts=5)
    )


def request_of_the_sdk(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the request that `train()` would send, without uploads."""
    monkeypatch.setattr(ModelTrainer, "_resolve_staging_bucket", lambda _: ("staging", None))
    monkeypatch.setattr(type(trainer.sagemaker_session), "upload_data", lambda *_, **__: "s3://staging/x")
    found: dict[str, Any] = trainer._create_training_job_args(boto3=True)
    trainer._temp_code_dir.cleanup()
    return found


def test_a_job_requests_the_same_training_job_as_the_sdk(
    full: Any, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs(tg.from_model_trainer(full, ["us-east-1"]), deployment)
    ours = training_job_request("x", job, "arn:aws:iam::123456789012:role/grid", {})
    theirs = request_of_the_sdk(full, monkeypatch)
    equal = ("ResourceConfig", "StoppingCondition", "EnableManagedSpotTraining", "Environment", "Tags", "RetryStrategy")
    assert {name: ours[name] for name in equal} == {name: theirs[name] for name in equal}
    for name in ("TrainingImage", "MetricDefinitions"):
        assert ours["AlgorithmSpecification"][name] == theirs["AlgorithmSpecification"][name]
    started = {name: value for name, value in ours["HyperParameters"].items() if not name.startswith("sagemaker_")}
    assert started == theirs["HyperParameters"]  # without the grid's own, because the line has a script
    assert ours["CheckpointConfig"]["S3Uri"].rstrip("/") == theirs["CheckpointConfig"]["S3Uri"]
    assert ours["OutputDataConfig"]["S3OutputPath"].rstrip("/") == theirs["OutputDataConfig"]["S3OutputPath"]


def test_channels_have_the_same_meaning_as_with_the_sdk(
    full: Any, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs(tg.from_model_trainer(full, ["us-east-1"]), deployment)
    ours = {
        channel["ChannelName"]: channel for channel in training_job_request("x", job, "role", {})["InputDataConfig"]
    }
    theirs = request_of_the_sdk(full, monkeypatch)
    mode = theirs["AlgorithmSpecification"]["TrainingInputMode"]
    default = {"InputMode": mode, "DataSource": {"S3DataSource": {"S3DataDistributionType": "FullyReplicated"}}}
    for channel in theirs["InputDataConfig"]:
        if channel["ChannelName"] not in ("code", "sm_drivers"):  # the SDK's own
            found = {"InputMode": default["InputMode"], **channel}
            source = {"S3DataDistributionType": "FullyReplicated", **channel["DataSource"]["S3DataSource"]}
            assert ours[channel["ChannelName"]] == {**found, "DataSource": {"S3DataSource": source}}
    assert set(ours) == {"train", "augmented", "plain", "listed"}


def test_torchrun_becomes_a_launcher_and_processes(trainer: Trainers, deployment: Deployment) -> None:
    two = Compute(instance_type="ml.p3.16xlarge", instance_count=2)
    (job,) = jobs(tg.from_model_trainer(trainer(distributed=Torchrun(), compute=two), ["us-east-1"]), deployment)
    assert (job.launcher, job.processes_per_host, job.ranks) == ("torchrun", 8, 16)


def test_a_script_without_distributed_runs_once_on_each_host(trainer: Trainers, deployment: Deployment) -> None:
    two = Compute(instance_type="ml.p3.16xlarge", instance_count=2)
    (job,) = jobs(tg.from_model_trainer(trainer(compute=two), ["us-east-1"]), deployment)
    assert (job.launcher, job.ranks) == ("none", 2)


def test_mpi_becomes_processes_and_options(full: Any, deployment: Deployment) -> None:
    (job,) = jobs(tg.from_model_trainer(full, ["us-east-1"]), deployment)
    assert (job.processes_per_host, job.mpi_options, job.streams) == (8, "-x NCCL_DEBUG=INFO", "host")


def test_mpi_has_a_process_for_each_gpu_by_default(trainer: Trainers) -> None:
    (line,) = tg.from_model_trainer(trainer(distributed=MPI()), ["us-east-1"])
    assert line["processes_per_host"] == 8
    other = trainer(distributed=MPI(), compute=Compute(instance_type="ml.p9.quantum", instance_count=1))
    with pytest.raises(tg.UsageError, match=r"The number of GPUs of ml\.p9\.quantum is not known"):
        tg.from_model_trainer(other, ["us-east-1"])


def test_a_job_for_each_region_reads_its_own_data(trainer: Trainers, deployment: Deployment) -> None:
    lines = tg.from_model_trainer(trainer(), REGIONS, data=DATA, image=TEMPLATE)
    found = jobs(lines, deployment)
    assert [(job.region, job.inputs["train"].uri) for job in found] == [
        ("us-east-1", "s3://data-iad/train/"),
        ("eu-west-1", "s3://data-dub/train/"),
    ]
    assert [job.image.split(".")[3] for job in found] == REGIONS
    assert [job.source.split("/")[2].rpartition("-123456789012-")[2] for job in found] == REGIONS


def test_region_in_braces_is_replaced_in_uris(trainer: Trainers) -> None:
    given = trainer(
        input_data_config=[InputData(channel_name="train", data_source="s3://mine-{region}/train")],
        output_data_config=OutputDataConfig(s3_output_path="s3://out-{region}/x"),
        checkpoint_config=CheckpointConfig(s3_uri="s3://out-{region}/c"),
    )
    lines = tg.from_model_trainer(given, REGIONS, image="resnet")
    assert [line["inputs"]["train"]["uri"] for line in lines] == [f"s3://mine-{region}/train" for region in REGIONS]
    assert [(line["output"], line["checkpoints"]) for line in lines] == [
        (f"s3://out-{region}/x", f"s3://out-{region}/c") for region in REGIONS
    ]


def test_a_trainer_with_defaults_only_uses_the_grids_output_and_keeps_no_checkpoints(trainer: Trainers) -> None:
    (line,) = tg.from_model_trainer(trainer(), ["us-east-1"])
    assert set(line) == {
        *("region", "name", "instance_type", "instance_count", "volume_gb", "max_runtime", "launcher"),
        *("image", "source", "entry_point", "inputs"),
    }
    assert (line["name"], line["max_runtime"], line["volume_gb"]) == ("mine-job", "3600s", 30)


def test_a_checkpoint_config_without_a_uri_keeps_checkpoints_in_the_grids_bucket(trainer: Trainers) -> None:
    (line,) = tg.from_model_trainer(trainer().with_checkpoint_config(), ["us-east-1"])
    assert line["checkpoints"] is True


def test_an_algorithm_gets_no_settings_of_mpi(trainer: Trainers) -> None:
    given = trainer(training_image=None, source_code=None, algorithm_name="arn:x:{region}:y")
    (line,) = tg.from_model_trainer(given, ["us-east-1"])
    assert line["algorithm"] == "arn:x:us-east-1:y"
    assert not {"image", "processes_per_host", "source"} & set(line)
    with pytest.raises(tg.UsageError, match=r"algorithm_name, which image='resnet' cannot replace"):
        tg.from_model_trainer(given, ["us-east-1"], image="resnet")


def test_hyperparameters_of_mpi_become_fields(trainer: Trainers) -> None:
    mpi = {"sagemaker_mpi_enabled": True, "sagemaker_mpi_num_of_processes_per_host": 4, "epochs": 2}
    (line,) = tg.from_model_trainer(trainer(source_code=None, hyperparameters=mpi), ["us-east-1"])
    assert (line["processes_per_host"], line["hyperparameters"]) == (4, {"epochs": "2"})


def test_ignored_files_and_secrets_are_not_packed(trainer: Trainers, folder: Path) -> None:
    code = SourceCode(source_dir=str(folder), entry_script="train.py", ignore_patterns=["*.sh", ".env", "part"])
    (line,) = tg.from_model_trainer(trainer(source_code=code), ["us-east-1"])
    assert set(archive(line)) == {"reqs.txt", "train.py"}


def test_requirements_are_packed_under_the_name_that_the_image_installs(trainer: Trainers, folder: Path) -> None:
    code = SourceCode(source_dir=str(folder), entry_script="start.sh", requirements="reqs.txt")
    (line,) = tg.from_model_trainer(trainer(source_code=code), ["us-east-1"])
    assert (archive(line)["requirements.txt"], line["entry_point"]) == ("attrs\n", "start.sh")


def test_requirements_that_the_sdk_would_not_install_are_refused(trainer: Trainers, folder: Path) -> None:
    (folder / "requirements.txt").write_text("attrs\n")
    with pytest.raises(tg.UsageError, match=r"requirements\.txt, which the job would install, and .* is None\."):
        tg.from_model_trainer(trainer(), ["us-east-1"])


@pytest.mark.parametrize(("ending", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_a_command_is_run_with_its_arguments_in_its_folder(
    trainer: Trainers, folder: Path, tmp_path: Path, ending: str, status: int
) -> None:
    command = f"cat train.py; printf '%s|' $SEED; show() {{ printf '<%s>' \"$@\"; {ending}; }}; show"
    code = SourceCode(source_dir=str(folder), command=command, args=["--name", "two words", 3, "$SEED"])
    (line,) = tg.from_model_trainer(trainer(source_code=code, hyperparameters={"epochs": 1}), ["us-east-1"])
    unpacked = tmp_path / "unpacked"
    for name, text in archive(line).items():
        (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
        (unpacked / name).write_text(text)
    program = [sys.executable, str(unpacked / line["entry_point"]), "--epochs", "1"]
    ended = subprocess.run(program, capture_output=True, text=True, check=False, cwd="/", env={"SEED": "7"})
    assert ended.stdout == "print('trained')\n7|<--name><two words><3><$SEED>"
    assert ended.returncode == status


def test_the_lines_can_be_varied_and_name_equal_sources_once(trainer: Trainers, deployment: Deployment) -> None:
    (line,) = tg.from_model_trainer(trainer(hyperparameters={"lr": 0.1}), ["us-east-1"])
    rows, sources = stage_folders([line | {"hyperparameters": {"lr": lr}} for lr in (0.1, 0.2)], deployment)
    assert len(sources) == 1
    assert [json.loads(json.dumps(row))["source"] for row in rows] == [str(sources[0].uri)] * 2


def test_a_trainer_is_not_changed(full: Any) -> None:
    before = repr(full)
    tg.from_model_trainer(full, ["us-east-1"])
    assert repr(full) == before


@pytest.mark.parametrize(
    ("regions", "arguments", "message"),
    [
        ("us-east-1", {}, "The regions are not a list"),
        ([], {}, "The regions are not a list"),
        (["us-east-1"] * 2, {}, "A Region is given twice"),
        (["us-east-1"], {"data": {"eu-west-1": {}}}, "data is not a dictionary by Region"),
        (["us-east-1"], {"data": {"us-east-1": "s3://x"}}, "is not a dictionary of channels"),
        (["us-east-1"], {"data": {"us-east-1": {"train": "/local"}}}, "The data of channel train is '/local', not"),
        (REGIONS, {"image": "resnet"}, "Channel train has one URI for several Regions"),
        (REGIONS, {"data": DATA}, r"image='123456789012\.dkr\.ecr\.\{region\}\.amazonaws\.com/traingrid/mine:1'"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(
    trainer: Trainers, regions: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(tg.UsageError, match=message):
        tg.from_model_trainer(trainer(), regions, **arguments)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"input_data_config": [InputData(channel_name="a", data_source="/tmp")]}, "is '/tmp', not an S3 URI"),
        (
            {"input_data_config": [InputData(channel_name="a", data_source="s3://x/y")] * 2},
            "channel_name is used twice",
        ),
        ({"source_code": SourceCode(command="python train.py")}, "source_dir is not set"),
    ],
)
def test_trainers_that_cannot_be_converted_are_refused(
    trainer: Trainers, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(tg.UsageError, match=message):
        tg.from_model_trainer(trainer(**changed), ["us-east-1"])


def test_a_command_with_mpi_is_refused_because_the_sdk_would_not_start_mpi(trainer: Trainers, folder: Path) -> None:
    code = SourceCode(source_dir=str(folder), entry_script="train.py", command="python train.py")
    with pytest.raises(tg.UsageError, match=r"a command \(source_code\.command\) starts without it"):
        tg.from_model_trainer(trainer(source_code=code, distributed=MPI()), ["us-east-1"])


def test_a_trainer_without_channels_is_refused(trainer: Trainers) -> None:
    given = trainer()
    given.input_data_config = None
    with pytest.raises(tg.UsageError, match="has no input_data_config"):
        tg.from_model_trainer(given, ["us-east-1"])


def test_an_archive_in_s3_is_used_unchanged(trainer: Trainers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelTrainer, "_validate_source_code", lambda *_: None)  # it would look for the object
    code = SourceCode(source_dir="s3://code-{region}/a.tar.gz", entry_script="train.py")
    (line,) = tg.from_model_trainer(trainer(source_code=code), ["us-east-1"])
    assert (line["source"], line["entry_point"]) == ("s3://code-us-east-1/a.tar.gz", "train.py")
