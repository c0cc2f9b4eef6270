"""Submits a ModelTrainer with a command, and one with MPI, and prints their logs. It runs in .venv-notebook.

python submit_trainers.py URI, in a folder with grid.yaml and source/train.py; URI is that of the channel's folder.
"""

import sys
from typing import Any

from sagemaker.core.training.configs import Compute, OutputDataConfig, SourceCode
from sagemaker.train import ModelTrainer
from sagemaker.train.distributed import MPI

import traingrid as tg

REGION = "us-east-1"


def trainer(name: str, **changed: Any) -> Any:
    return ModelTrainer(
        training_image="123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
        role="arn:aws:iam::123456789012:role/mine",
        base_job_name=name,
        compute=Compute(instance_type="ml.m5.large", instance_count=1, volume_size_in_gb=10),
        output_data_config=OutputDataConfig(s3_output_path=f"s3://traingrid-output-123456789012-{{region}}/{name}"),
        **changed,
    )


def main() -> None:
    command = "echo '<started>'; python train.py"
    options = ["--learning_rate", 1, "--epochs", 2]
    trainers = [
        trainer("command", source_code=SourceCode(source_dir="source", command=command, args=options)),
        trainer(
            "mpi",
            source_code=SourceCode(source_dir="source", entry_script="train.py"),
            distributed=MPI(process_count_per_node=2),
            hyperparameters={"learning_rate": 1, "epochs": 2},
        ),
    ]
    data = {REGION: {"train": sys.argv[1]}}
    lines = [line for one in trainers for line in tg.from_model_trainer(one, [REGION], data=data, image="training")]
    submission = tg.Grid.load("grid.yaml").submit(lines)
    for job in submission.wait(poll=1).jobs:
        print(f"{job.name}: {job.state} {job.reason}".strip())
    for line in submission.logs():
        print(line.text)


if __name__ == "__main__":
    main()
