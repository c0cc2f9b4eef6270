import json
from collections.abc import Callable
from pathlib import Path

import pytest

from training_container.contract.launch_options import gpu_count
from training_container.contract.toolkit import sagemaker_variables
from training_container.contract.training_job import ContractError, Folders, read_training_job


def test_a_host_reads_its_job(host_folder: Callable[..., Path], tmp_path: Path) -> None:
    base = host_folder(
        tmp_path / "ml", hosts=("algo-2", "algo-1"), current_host="algo-2", options='-x "A=b c" -mca d e'
    )
    job = read_training_job(Folders(base=base))
    assert job.hosts == ("algo-1", "algo-2")
    assert (job.main_host, job.is_main_host, job.world_size) == ("algo-1", False, 4)
    assert job.launch.mpi_options == ("-x", "A=b c", "-mca", "d", "e")
    assert job.channels["train"] == base / "input" / "data" / "train"
    assert "model" in job.hyperparameters
    assert not [name for name in job.hyperparameters if name.startswith("sagemaker_")]


def test_the_base_folder_is_opt_ml_or_from_the_toolkits_variable() -> None:
    assert Folders.from_environment({}).model == Path("/opt/ml/model")
    assert Folders.from_environment({"SAGEMAKER_BASE_DIR": "/somewhere"}).failure == Path("/somewhere/output/failure")


@pytest.mark.parametrize("value", ["resnet8", '"resnet8"'])
def test_strings_are_accepted_plain_and_encoded_by_the_sdk(
    host_folder: Callable[..., Path], tmp_path: Path, value: str
) -> None:
    job = read_training_job(Folders(base=host_folder(tmp_path / "ml", {"model": value, "epochs": '"3"'})))
    assert job.hyperparameters == {"model": "resnet8", "epochs": "3"}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("sagemaker_mpi_num_of_processes_per_host", "0", "whole number from 1"),
        ("sagemaker_mpi_num_of_processes_per_host", "two", "whole number from 1"),
        ("sagemaker_mpi_enabled", "maybe", "true or false"),
        ("sagemaker_mpi_custom_mpi_options", "-x 'A", "No closing quotation"),
        ("sagemaker_program", "../mine.py", "inside the archive"),
        ("sagemaker_program", "mine.exe", "a .py or .sh file"),
        ("sagemaker_submit_directory", "s3://b/source.tar.gz", "sagemaker_program is missing"),
    ],
)
def test_an_invalid_launch_hyperparameter_is_reported(
    host_folder: Callable[..., Path], tmp_path: Path, name: str, value: str, words: str
) -> None:
    base = host_folder(tmp_path / "ml", {name: value})
    with pytest.raises(ContractError, match=f"{name}.*{words}"):
        read_training_job(Folders(base=base))


def test_command_line_flags_override_hyperparameters(host_folder: Callable[..., Path], tmp_path: Path) -> None:
    folders = Folders(base=host_folder(tmp_path / "ml", {"epochs": "3", "model": "resnet8"}))
    job = read_training_job(folders, ["--epochs", "4", "--b", "256", "--clear_log"])
    assert job.hyperparameters == {"epochs": "4", "b": "256", "clear_log": "true", "model": "resnet8"}
    assert job.flags == ("--epochs", "4", "--b", "256", "--clear_log")


@pytest.mark.parametrize(
    ("flags", "words"),
    [(["90"], "is not a flag"), (["--sagemaker_mpi_enabled", "false"], "Set it in hyperparameters.json")],
)
def test_invalid_arguments_are_reported(
    host_folder: Callable[..., Path], tmp_path: Path, flags: list[str], words: str
) -> None:
    with pytest.raises(ContractError, match=words):
        read_training_job(Folders(base=host_folder(tmp_path / "ml")), flags)


def test_a_script_gets_the_toolkits_variables(host_folder: Callable[..., Path], tmp_path: Path) -> None:
    settings = {"sagemaker_program": "mine.py", "sagemaker_submit_directory": '"s3://b/a.tar.gz"', "epochs": "2"}
    variables = sagemaker_variables(read_training_job(Folders(base=host_folder(tmp_path / "ml", settings))))
    assert (variables["SM_USER_ENTRY_POINT"], variables["SM_MODULE_NAME"]) == ("mine.py", "mine")
    assert variables["SM_MODULE_DIR"] == "s3://b/a.tar.gz"
    assert json.loads(variables["SM_USER_ARGS"]) == ["--epochs", "2"]
    assert json.loads(variables["SM_FRAMEWORK_PARAMS"])["sagemaker_mpi_enabled"] is True
    assert not {"sagemaker_program", "sagemaker_submit_directory"} & json.loads(variables["SM_FRAMEWORK_PARAMS"]).keys()


def test_the_default_is_one_process_per_gpu(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpu_count(tmp_path) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "resourceconfig.json is missing.*SAGEMAKER_BASE_DIR"),
        ("{", "is not JSON"),
        ("[]", "must contain a JSON object"),
        ('{"hosts": ["algo-1"], "current_host": "algo-9"}', "algo-9"),
    ],
)
def test_an_invalid_resource_file_is_reported(
    host_folder: Callable[..., Path], tmp_path: Path, content: str | None, words: str
) -> None:
    base = host_folder(tmp_path / "ml")
    path = base / "input" / "config" / "resourceconfig.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(ContractError, match=words):
        read_training_job(Folders(base=base))


def test_the_metric_that_a_tuner_adds_is_not_a_hyperparameter(host_folder: Callable[..., Path], tmp_path: Path) -> None:
    tuned = {"_tuning_objective_metric": "validation_top1", "epochs": "2"}
    assert read_training_job(Folders(base=host_folder(tmp_path / "ml", tuned))).hyperparameters == {"epochs": "2"}


def test_ranks_get_the_toolkits_variables(host_folder: Callable[..., Path], tmp_path: Path) -> None:
    base = host_folder(tmp_path / "ml", {"batch_size": "8"})
    variables = sagemaker_variables(read_training_job(Folders(base=base)))
    assert variables["SM_CHANNEL_TRAIN"] == str(base / "input" / "data" / "train")
    assert variables["SM_HP_BATCH_SIZE"] == "8"
    assert json.loads(variables["SM_HOSTS"]) == ["algo-1"]
    assert variables["SM_MODEL_DIR"] == str(base / "model")
    assert variables["SM_OUTPUT_INTERMEDIATE_DIR"] == str(base / "output" / "intermediate")
    assert variables["SM_LOG_LEVEL"] == "20"
    assert json.loads(variables["SM_RESOURCE_CONFIG"])["network_interface_name"] == "eth0"
    assert json.loads(variables["SM_INPUT_DATA_CONFIG"]) == {"train": {}, "validation": {}}


def test_hyperparameters_have_types_where_the_toolkit_converts_them(
    host_folder: Callable[..., Path], tmp_path: Path
) -> None:
    given = {"batch_size": "8", "rate": "1e-2", "warm": "true", "layers": "[1, 2]", "model": "resnet8"}
    base = host_folder(tmp_path / "ml", given | {"sagemaker_program": "mine.py"})
    variables = sagemaker_variables(read_training_job(Folders(base=base)))
    typed = {"batch_size": 8, "rate": 0.01, "warm": True, "layers": [1, 2], "model": "resnet8"}
    assert json.loads(variables["SM_HPS"]) == typed
    whole = json.loads(variables["SM_TRAINING_ENV"])
    assert whole["hyperparameters"] == typed
    assert whole["channel_input_dirs"]["train"] == variables["SM_CHANNEL_TRAIN"]
    assert (whole["hosts"], whole["is_master"], whole["user_entry_point"]) == (["algo-1"], True, "mine.py")
    assert variables["SM_HP_RATE"] == "1e-2"
    assert all(isinstance(value, str) for value in variables.values())
