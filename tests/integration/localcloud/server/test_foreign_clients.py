"""The SageMaker Python SDK v2 and v3 against localcloud: one training job each.

Each SDK needs an environment that `make test` does not install, so these tests must be run separately:
`make .venv-bench/.installed` installs v2; SDK_V3_PYTHON is the Python of an environment with sagemaker-train. The tests
pass image, role, bucket and data, and the instance for v2; the other parameters are the SDK's defaults. The default
bucket is not tested, because the SDK (sagemaker.session, default_bucket) uses the address of the real STS to name it.
The environment sets a proxy that does not exist, so that such a call cannot leave this machine.
"""

import os
import subprocess
from pathlib import Path

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.training_side import SageMaker
from tests.support.packages import needs

ROOT = Path(__file__).resolve().parents[4]
V2 = Path(os.environ.get("SDK_V2_PYTHON", ROOT / ".venv-bench/bin/python"))
V3 = os.environ.get("SDK_V3_PYTHON", "")

ESTIMATOR = """
import sys
from sagemaker.estimator import Estimator
image, role, data, output = sys.argv[1:]
estimator = Estimator(image, role, instance_count=1, instance_type="ml.m5.large", output_path=output)
estimator.fit({"train": data})
print("ended", estimator.latest_training_job.describe()["TrainingJobStatus"])
"""
MODEL_TRAINER = """
import sys
from sagemaker.core.helper.session_helper import Session
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import InputData
image, role, data, output = sys.argv[1:]
session = Session(default_bucket=output.split("/")[2])
trainer = ModelTrainer(sagemaker_session=session, training_image=image, role=role, base_job_name="trainer")
trainer.train(input_data_config=[InputData(channel_name="train", data_source=data)])
print("ended", trainer._latest_training_job.training_job_status)
"""


def ran(cloud: LocalCloud, sagemaker: SageMaker, python: Path, program: str, folder: Path) -> str:
    """Run a program that trains with an SDK, and return its output."""
    request = sagemaker.request("print('trained by a foreign client')")
    words = [request["AlgorithmSpecification"]["TrainingImage"], sagemaker.role]
    words += [f"s3://{sagemaker.bucket}/data", f"s3://{sagemaker.bucket}/out"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **user_environment(cloud.endpoint_url)}
    ended = subprocess.run(
        [str(python), "-c", program, *words],
        env=environment | {"AWS_DEFAULT_REGION": "us-east-1", "HTTPS_PROXY": "http://127.0.0.1:9"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    return ended.stdout


@needs("make .venv-bench/.installed")
def test_an_estimator_of_sdk_v2_trains(cloud: LocalCloud, sagemaker: SageMaker, tmp_path: Path) -> None:
    output = ran(cloud, sagemaker, V2, ESTIMATOR, tmp_path)
    assert "trained by a foreign client" in output
    assert "ended Completed" in output


@needs("SDK_V3_PYTHON")
def test_a_model_trainer_of_sdk_v3_trains(cloud: LocalCloud, sagemaker: SageMaker, tmp_path: Path) -> None:
    output = ran(cloud, sagemaker, Path(V3), MODEL_TRAINER, tmp_path)
    assert "ended Completed" in output
