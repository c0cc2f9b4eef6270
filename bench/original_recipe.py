"""The original recipe: one line of the array file becomes an estimator of the SageMaker Python SDK v2.

Usage: `python bench/original_recipe.py ROLE IMAGE OUTPUT SOURCE`, in the environment .venv-bench, with the variables of
an AWS Batch child. Like typical programs, it reads the array file from S3, selects the line of the
array index, builds a TensorFlow estimator with MPI, and calls `fit(wait=False)`. For a fair comparison it uses the
cheapest variant of each step: the default bucket, role and image are given instead of looked up, the user's code
is already in S3 (SOURCE) instead of being packed and uploaded, and the SDK's debugger, profiler and telemetry, which
SageMaker's own examples leave enabled, are disabled.
"""

import os
import sys

import boto3
import sagemaker
from sagemaker.tensorflow import TensorFlow

NO_TELEMETRY = {
    "SchemaVersion": "1.0",
    "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}},
}


def read_line(array_file: str, index: int) -> tuple[str, str]:
    """Return the Region and data URI of line `index` (from 0) of an array file with lines `region,s3_uri[,name]`."""
    bucket, _, key = array_file.removeprefix("s3://").partition("/")
    body = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    region, uri = body.splitlines()[index].split(",")[:2]
    return region, uri


def train(region: str, data: str, *, role: str, image: str, output: str, source: str) -> None:  # noqa: PLR0913 - most are keyword-only
    """Create one training job, and return as soon as SageMaker has accepted it."""
    session = sagemaker.Session(
        boto_session=boto3.Session(region_name=region),
        default_bucket=output.removeprefix("s3://").partition("/")[0],
        sagemaker_config=NO_TELEMETRY,
    )
    estimator = TensorFlow(
        sagemaker_session=session,
        entry_point="train.py",
        source_dir=source,
        role=role,
        image_uri=image,
        instance_count=1,
        instance_type="ml.p3.16xlarge",
        output_path=output,
        volume_size=100,
        hyperparameters={"model": "resnet50"},
        distribution={
            "mpi": {
                "enabled": True,
                "processes_per_host": 8,
                "custom_mpi_options": "-x HOROVOD_HIERARCHICAL_ALLREDUCE=1 -x HOROVOD_FUSION_THRESHOLD=16777216",
            }
        },
        debugger_hook_config=False,
        disable_profiler=True,
    )
    estimator.fit(inputs={"train": f"{data}/train", "validation": f"{data}/validation"}, wait=False)


def main() -> None:
    """Train this child's line."""
    region, data = read_line(os.environ["S3_ARRAY_FILE"], int(os.environ["AWS_BATCH_JOB_ARRAY_INDEX"]))
    role, image, output, source = sys.argv[1:]
    train(region, data, role=role, image=image, output=output, source=source)


if __name__ == "__main__":
    main()
