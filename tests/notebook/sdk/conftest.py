from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from sagemaker.core.config.config_manager import SageMakerConfig
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.training.configs import Compute, InputData, SourceCode
from sagemaker.train import ModelTrainer
from sagemaker.train.defaults import TrainDefaults

from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings

# A library of the SDK (smdebug-rulesconfig) installs a package `tests`, so nothing of ours can be imported from there.
Trainers = Callable[..., Any]
BUCKET = "sagemaker-us-east-1-123456789012"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/traingrid/mine:1"
ROLE = "arn:aws:iam::123456789012:role/mine"


@pytest.fixture
def deployment() -> Deployment:
    grid = GridSettings.model_validate(
        {
            "name": "traingrid",
            "home": "us-east-1",
            "regions": {"us-east-1": {"data_buckets": ["data-iad"]}, "eu-west-1": {"data_buckets": ["data-dub"]}},
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": {"image": "resnet", "instance_type": "ml.p3.16xlarge", "hyperparameters": {"model": "resnet50"}},
        }
    )
    return Deployment(
        grid=grid,
        account="123456789012",
        table="ledger",
        manifest_bucket="traingrid-manifests-123456789012-us-east-1",
        job_queue="queue",
        job_definition="definition",
    )


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of the SDK whose default bucket exists, without configuration files and without AWS."""
    config = tmp_path_factory.mktemp("config") / "config.yaml"
    config.write_text("SchemaVersion: '1.0'\n")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SAGEMAKER_ADMIN_CONFIG_OVERRIDE", "SAGEMAKER_USER_CONFIG_OVERRIDE"):
            patch.setenv(name, str(config))
        # Both take most of a second for each trainer: a client for IAM, and a schema that is checked for each default.
        patch.setattr(TrainDefaults, "get_role", lambda role, **_: role)
        patch.setattr(SageMakerConfig, "validate_sagemaker_config", lambda *_: None)
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        found = Session(boto_session=boto3.Session(region_name="us-east-1"))
        found._default_bucket = BUCKET
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "src"
    (found / "part").mkdir(parents=True)
    (found / "train.py").write_text("print('trained')\n")
    (found / "start.sh").write_text("echo trained\n")
    (found / "part" / "model.py").write_text("size = 3\n")
    (found / "reqs.txt").write_text("attrs\n")
    (found / ".env").write_text("SECRET=1\n")
    return found


@pytest.fixture
def trainer(session: Any, folder: Path) -> Trainers:
    """Return a function that creates a ModelTrainer with some of its arguments replaced."""

    def create(**changed: Any) -> Any:
        usual = {
            "training_image": IMAGE,
            "source_code": SourceCode(source_dir=str(folder), entry_script="train.py"),
            "compute": Compute(instance_type="ml.p3.16xlarge", instance_count=1),
            "input_data_config": [InputData(channel_name="train", data_source="s3://data-iad/train/")],
            "role": ROLE,
            "sagemaker_session": session,
        }
        return ModelTrainer(**{name: value for name, value in {**usual, **changed}.items() if value is not None})

    return create
