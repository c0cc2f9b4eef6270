"""GPU families: compares the instance types with NVIDIA GPUs with SageMaker's list of training instance types."""

import botocore.loaders

from traingrid.manifest.accelerators import accelerators
from training_container.contract.missing_gpus import has_gpus

# https://aws.amazon.com/ec2/instance-types/: general purpose, compute and memory optimized; Trainium.
WITHOUT = ("ml.m", "ml.c", "ml.r", "ml.t3.", "ml.trn")


def test_every_training_instance_type_is_known_to_have_gpus_or_not() -> None:
    model = botocore.loaders.Loader().load_service_model("sagemaker", "service-2")
    for kind in model["shapes"]["TrainingInstanceType"]["enum"]:
        assert has_gpus(kind) != kind.startswith(WITHOUT), kind
        if has_gpus(kind):
            assert accelerators(kind, 1) > 0, kind
