import itertools
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.conftest import REPOSITORY
from training_container import __main__ as program
from training_container.__main__ import launch_command
from training_container.contract.launch_options import LaunchOptions, Script, parse
from training_container.contract.training_job import ContractError, Folders, TrainingJob
from training_container.launcher.command import gloo_command, mpirun_command, shown
from training_container.launcher.open_mpi import major_version
from training_container.launcher.rank_environment import rank_environment
from training_container.recipe.config import Config

JOB = TrainingJob(
    folders=Folders(base=Path("/opt/ml")),
    hosts=("algo-1",),
    current_host="algo-1",
    network_interface="eth0",
    channels={"train": Path("/opt/ml/input/data/train")},
    hyperparameters={"epochs": "2"},
    launch=LaunchOptions(processes_per_host=2),
)
GLOO = "training_container.launcher.gloo"
RANK = [sys.executable, "-u", "-m", "training_container.ranks.trainer_rank"]


def pairs(command: list[str], option: str) -> list[str]:
    return [value for name, value in itertools.pairwise(command) if name == option]


def test_one_host_starts_its_ranks_without_ssh() -> None:
    command = mpirun_command(JOB, ["SM_HPS", "PATH"], None)
    assert command[:5] == ["mpirun", "--allow-run-as-root", "-np", "2", "--host"]
    assert pairs(command, "--host") == ["localhost:2"]
    assert pairs(command, "-x") == ["PATH", "SM_HPS"]
    assert "plm_rsh_agent" not in command
    assert pairs(command, "rtc_hwloc_vmhole") == ["none"]
    assert command[-4:] == RANK


def test_two_hosts_have_slots_and_use_the_named_interface() -> None:
    command = mpirun_command(replace(JOB, hosts=("algo-1", "algo-2")), [], "eth0")
    assert pairs(command, "-np") == ["4"]
    assert pairs(command, "--host") == ["localhost:2,algo-2:2"]
    assert pairs(command, "btl_tcp_if_include") == pairs(command, "oob_tcp_if_include") == ["eth0"]
    assert pairs(command, "plm_rsh_agent")[0].startswith("ssh -o BatchMode=yes")


POD_HOSTS = replace(JOB, hosts=("g-0-1-0.g-0-1", "g-0-1-1.g-0-1"), current_host="g-0-1-0.g-0-1")


def test_names_of_pods_are_not_cut_at_the_first_dot() -> None:
    assert pairs(mpirun_command(POD_HOSTS, [], None), "orte_keep_fqdn_hostnames") == ["true"]
    assert pairs(mpirun_command(POD_HOSTS, [], None, version=5), "prte_keep_fqdn_hostnames") == ["true"]
    for version in (4, 5):
        command = mpirun_command(replace(JOB, hosts=("algo-1", "algo-2")), [], None, version=version)
        assert not [word for word in command if "fqdn" in word]


@pytest.mark.usefixtures("controller")
def test_the_launcher_connects_to_the_full_name_of_a_pod(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "connects: $*" >&2\nexit 1\n')
    ssh.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    launcher = launch_command(POD_HOSTS, environment)[: -len(RANK)]
    ran = subprocess.run(
        [*launcher, "sleep", "60"],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=50,
    )
    assert re.search(r"connects: .* g-0-1-1\.g-0-1 ", ran.stdout)


@pytest.mark.parametrize("name", ["orte_keep_fqdn_hostnames", "prte_keep_fqdn_hostnames"])
def test_a_parameter_of_custom_options_is_not_set_twice(name: str) -> None:
    """Open MPI 4 refuses a parameter that is set twice."""
    job = replace(POD_HOSTS, launch=LaunchOptions(mpi_options=("-mca", name, "0")))
    for version in (4, 5):
        assert pairs(mpirun_command(job, [], None, version=version), name) == ["0"]


def test_custom_options_are_appended_unchanged() -> None:
    text = "-mca btl_vader_single_copy_mechanism none -x HOROVOD_FUSION_THRESHOLD=16777216 -x NCCL_LAUNCH_MODE=PARALLEL"
    launch = parse(
        {
            "sagemaker_mpi_custom_mpi_options": text,
            "sagemaker_mpi_num_of_processes_per_host": "1",
            "sagemaker_region": "x",
        }
    )
    command = mpirun_command(replace(JOB, launch=launch), ["A"], None)
    assert command[-4 - len(text.split()) : -4] == text.split()


def test_a_variable_set_by_custom_options_is_not_set_twice() -> None:
    """Open MPI refuses a variable that is set twice with different values."""
    launch = LaunchOptions(mpi_options=("-x", "NCCL_MIN_NRINGS=8"))
    command = mpirun_command(replace(JOB, launch=launch), ["NCCL_MIN_NRINGS", "OTHER"], None)
    assert pairs(command, "-x") == ["OTHER", "NCCL_MIN_NRINGS=8"]


def test_variables_of_a_single_host_are_not_forwarded() -> None:
    names = ["HOME", "HOSTNAME", "SAGEMAKER_BASE_DIR", "SSH_CONNECTION", "OMPI_COMM_WORLD_RANK", "MY_SETTING"]
    assert pairs(mpirun_command(JOB, names, None), "-x") == ["MY_SETTING"]


def test_gloo_gets_the_same_slots() -> None:
    command = gloo_command(replace(JOB, hosts=("algo-1", "algo-2")), ["B", "A"], "eth0")
    assert pairs(command, "--hosts") == ["algo-1:2,algo-2:2"]
    assert pairs(command, "--forward") == ["A,B"]
    assert pairs(command, "--interface") == ["eth0"]
    assert command[-5:] == ["--", *RANK]


def test_the_variable_of_horovod_selects_the_program_that_starts_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "has_mpi", lambda: True)
    assert launch_command(JOB, {})[0] == launch_command(JOB, {"HOROVOD_CONTROLLER": "mpi"})[0] == "mpirun"
    assert GLOO in launch_command(JOB, {"HOROVOD_CONTROLLER": "gloo"})
    monkeypatch.setattr(program, "has_mpi", lambda: False)
    assert GLOO in launch_command(JOB, {})
    with pytest.raises(ContractError, match="mpirun is missing"):
        launch_command(JOB, {"HOROVOD_CONTROLLER": "mpi"})


def test_the_log_shows_a_command_without_the_names_of_forwarded_variables() -> None:
    names = [f"SM_HP_{number}" for number in range(100)]
    launch = LaunchOptions(processes_per_host=2, mpi_options=("-x", "NCCL_DEBUG=INFO"))
    job = replace(JOB, launch=launch, flags=("-x", "5"))
    mpi, gloo = mpirun_command(job, names, None), gloo_command(job, names, None)
    assert shown(mpi, names) == shlex.join(mpirun_command(job, [], None))
    assert "SM_HP" not in shown(gloo, names)
    for command in (mpi, gloo):
        assert shown(command, names).endswith(f"{shlex.join(RANK)} -x 5")


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "DATABASE_PASSWORD"])
def test_gloo_puts_no_secret_on_a_command_line(name: str) -> None:
    assert name not in " ".join(gloo_command(JOB, [name, "A"], None))


def test_a_script_is_started_like_the_trainer_and_can_import_its_api() -> None:
    job = replace(JOB, launch=LaunchOptions(script=Script(entry_point="mine.py")), flags=("--epochs", "2"))
    for command in (mpirun_command(job, [], None), gloo_command(job, [], None)):
        assert command[-4:] == ["-m", "training_container.ranks.script_rank", "--epochs", "2"]
    assert rank_environment(job, {}, Path("/opt"))["PYTHONPATH"] == "/opt:/opt/training_container/script_path"


def test_open_mpi_5_gets_prrtes_parameter_names() -> None:
    command = mpirun_command(replace(JOB, hosts=("algo-1", "algo-2")), [], "eth0", version=5)
    assert pairs(command, "plm_ssh_agent")[0].startswith("ssh -o BatchMode=yes")
    assert pairs(command, "plm_ssh_no_tree_spawn") == ["1"]
    assert pairs(command, "btl_tcp_if_include") == pairs(command, "prte_if_include") == ["eth0"]
    assert {"plm_rsh_agent", "rtc_hwloc_vmhole", "oob_tcp_if_include"}.isdisjoint(command)
    assert {"plm_ssh_agent", "prte_if_include"}.isdisjoint(mpirun_command(JOB, [], "eth0", version=5))


@pytest.mark.parametrize(
    ("output", "version"), [("mpirun (Open MPI) 5.0.11\n", 5), ("mpirun (Open MPI) 4.1.4\n", 4), ("HYDRA 4.2", 4)]
)
def test_the_version_is_read_from_mpirun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, version: int
) -> None:
    (tmp_path / "mpirun").write_text(f"#!/bin/sh\necho '{output}'\n")
    (tmp_path / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert major_version() == version


def test_hyperparameters_set_horovods_variables_unless_already_set() -> None:
    config = Config.from_hyperparameters(
        {"fusion_mb": "32", "hierarchical_allreduce": "true", "timeline": "true", "stall_seconds": "120"}
    )
    environment = rank_environment(JOB, {"HOROVOD_FUSION_THRESHOLD": "0"}, Path("/opt"), config)
    assert environment["HOROVOD_FUSION_THRESHOLD"] == "0"
    assert environment["HOROVOD_HIERARCHICAL_ALLREDUCE"] == "1"
    assert environment["HOROVOD_TIMELINE"] == "/opt/ml/output/data/timeline.json"
    assert environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == "120"
    assert environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] == "12"
    plain = rank_environment(JOB, {}, Path("/opt"), Config())
    assert {"HOROVOD_FUSION_THRESHOLD", "HOROVOD_HIERARCHICAL_ALLREDUCE", "HOROVOD_TIMELINE"}.isdisjoint(plain)


STREAMED = replace(JOB, channel_settings={"validation": {}, "train": {"TrainingInputMode": "Pipe"}})


@pytest.mark.parametrize(("gpus", "expected"), [(0, {}), (8, {"TF_GPU_THREAD_MODE": "gpu_private"})])
def test_gpus_have_threads_of_their_own_and_xla_averages_gradients(
    monkeypatch: pytest.MonkeyPatch, gpus: int, expected: dict[str, str]
) -> None:
    monkeypatch.setattr("training_container.launcher.rank_environment.gpu_count", lambda: gpus)
    environment = rank_environment(JOB, {}, Path("/opt"), Config(xla=True))
    assert {name: environment[name] for name in ("TF_GPU_THREAD_MODE",) if name in environment} == expected
    assert ("HOROVOD_ENABLE_XLA_OPS" in environment) == (gpus > 0)
    assert "HOROVOD_ENABLE_XLA_OPS" not in rank_environment(JOB, {}, Path("/opt"), Config())


@pytest.mark.parametrize(
    ("job", "given", "seconds"),
    [
        (JOB, {}, "300"),
        (STREAMED, {}, "660"),
        (STREAMED, {"pipe_timeout_seconds": "1000"}, "1060"),
        (STREAMED, {"pipe_timeout_seconds": "100"}, "300"),
        (STREAMED, {"stall_seconds": "200"}, "200"),
        (STREAMED, {"stall_seconds": "0"}, "0"),
    ],
)
def test_ranks_wait_for_one_that_waits_for_its_stream(job: TrainingJob, given: dict[str, str], seconds: str) -> None:
    config = Config.from_hyperparameters(given)
    environment = rank_environment(replace(job, hyperparameters=given), {}, Path("/opt"), config)
    assert environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == seconds


def test_the_stall_check_interval_depends_on_the_limit_in_the_environment() -> None:
    """Horovod enforces no limit that is shorter than its check interval."""
    environment = rank_environment(JOB, {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "4"}, Path("/opt"), Config())
    assert environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == "4"
    assert environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] == "1"


def test_ranks_find_the_package_and_keep_the_users_settings() -> None:
    given = {"PYTHONPATH": "/mine", "TF_CPP_MIN_LOG_LEVEL": "0", "MY_SETTING": "1"}
    environment = rank_environment(JOB, given, Path("/opt/traingrid"))
    assert environment["PYTHONPATH"] == "/opt/traingrid:/mine"
    assert environment["TF_CPP_MIN_LOG_LEVEL"] == "0"
    assert environment["MY_SETTING"] == "1"
    assert environment["SM_HP_EPOCHS"] == "2"
