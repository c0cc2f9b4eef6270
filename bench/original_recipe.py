"""The way of the original recipe: one line of the array file becomes a SageMaker Python SDK v2 estimator.

`python bench/original_recipe.py ROLE IMAGE OUTPUT SOURCE`, in the environment of bench/requirements.txt and with the
variables of an AWS Batch child. It does what such programs do: read the array file from S3, take the line of the
array index, build a TensorFlow estimator with MPI, call `fit(wait=False)`. Where there is a cheaper way it is taken, so
that the comparison is fair: the default bucket, the role and the image are given instead of looked up, the user's code
lies in S3 already (SOURCE) instead of being packed and uploaded, and the SDK's debugger, profiler and telemetry, which
SageMaker's own examples leave on, are off.
"""

import os
import sys

import boto3
import sagemaker  # type: ignore[import-not-found] # it is in an environment of its own
from sagemaker.tensorflow import TensorFlow  # type: ignore[import-not-found]

NO_TELEMETRY = {
    "SchemaVersion": "1.0",
    "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}},
}


def read_line(array_file: str, index: int) -> tuple[str, str]:
    """Return Region and data of line `index` (from 0) of an array file, `region,s3_uri[,name]`."""
    bucket, _, key = array_file.removeprefix("s3://").partition("/")
    body = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    region, uri = body.splitlines()[index].split(",")[:2]
    return region, uri


def train(region: str, data: str, *, role: str, image: str, output: str, source: str) -> None:  # noqa: PLR0913
    """Start one training job and return as soon as SageMaker has accepted it."""
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
        volume_size=200,
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
    """Train the line of this child."""
    region, data = read_line(os.environ["S3_ARRAY_FILE"], int(os.environ["AWS_BATCH_JOB_ARRAY_INDEX"]))
    role, image, output, source = sys.argv[1:]
    train(region, data, role=role, image=image, output=output, source=source)


if __name__ == "__main__":
    main()
