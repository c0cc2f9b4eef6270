"""Torchrun: the command and variables with which each host starts its own ranks of PyTorch.

Every host runs torchrun with a static rendezvous on the first host, as AWS's toolkit does
(https://github.com/aws/sagemaker-training-toolkit, torch_distributed.py; port 7777). torchrun's options and variables:
https://docs.pytorch.org/docs/stable/elastic/run.html.
"""

import shutil
import socket
from collections.abc import Mapping

from training_container.contract.training_job import ContractError, TrainingJob

DEFAULT_PORT = 7777


def port(environment: Mapping[str, str]) -> int:
    """Return the port of the rendezvous, from MASTER_PORT.

    Raises:
        ContractError: MASTER_PORT is not a port, or leaves no port after it, on which hosts report.
    """
    text = environment.get("MASTER_PORT", str(DEFAULT_PORT))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) < 65535):
        raise ContractError(f"The variable MASTER_PORT is {text!r}; it must be a port from 1 to 65,534.")
    return int(text)


def rendezvous_variables(job: TrainingJob, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the rendezvous, which programs without a launcher may use, too."""
    return {"MASTER_ADDR": job.main_host, "MASTER_PORT": str(port(environment))}


def torchrun_command(job: TrainingJob, environment: Mapping[str, str], rank_command: list[str]) -> list[str]:
    """Return the command that starts the ranks of this host.

    Args:
        environment: The environment of the ranks.
        rank_command: The command of each rank.

    Raises:
        ContractError: torchrun is not on PATH.
    """
    command = [
        installed(environment),
        "--nnodes",
        str(len(job.hosts)),
        "--nproc_per_node",
        str(job.launch.processes_per_host),
    ]
    command += ["--node_rank", str(job.hosts.index(job.current_host))]
    if len(job.hosts) > 1:
        command += ["--master_addr", job.main_host, "--master_port", str(port(environment))]
    else:
        command += ["--master_addr", "127.0.0.1", "--master_port", str(_free_port())]
    return [*command, "--no_python", *rank_command]


def installed(environment: Mapping[str, str]) -> str:
    """Return the path of torchrun.

    Raises:
        ContractError: It is not on PATH.
    """
    program = shutil.which("torchrun", path=environment.get("PATH"))
    if program is None:
        raise ContractError(
            "The launcher is torchrun, but the image has no torchrun on PATH. Use an image with PyTorch, or add torch "
            "to the script's requirements.txt."
        )
    return program


def _free_port() -> int:
    """Return a port that no program of this host uses: several jobs may share a machine outside SageMaker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
