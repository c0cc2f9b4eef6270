"""Console: addresses of pages of the AWS console.

AWS does not document them. Their forms are those that published programs print or link, and none was opened in AWS.
"""

from __future__ import annotations

from urllib.parse import quote


def console_address(region: str, training_job: str = "") -> str:
    """Return the address of a training job's page in the AWS console, or of the list of all training jobs.

    Weights & Biases prints the same address
    (https://github.com/wandb/wandb/blob/main/wandb/sdk/launch/runner/sagemaker_runner.py).
    """
    address = f"https://{region}.console.aws.amazon.com/sagemaker/home?region={region}#/jobs"
    return f"{address}/{training_job}" if training_job else address


def batch_job_address(region: str, job: str) -> str:
    """Return the address of a Batch job's page in the AWS console.

    It is that of Apache Airflow's `BatchJobDetailsLink`
    (https://github.com/apache/airflow/blob/main/providers/amazon/src/airflow/providers/amazon/aws/links/batch.py), on
    the host of the Region.
    """
    return f"https://{region}.console.aws.amazon.com/batch/home?region={region}#jobs/detail/{job}"


def folder_address(region: str, uri: str) -> str:
    """Return the address of the page of the folder that contains an S3 object, in the AWS console.

    It is that of Apache Airflow's `EmrServerlessS3LogsLink`
    (https://github.com/apache/airflow/blob/main/providers/amazon/src/airflow/providers/amazon/aws/links/emr.py), on the
    host of the Region.
    """
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    prefix = quote(key[: key.rfind("/") + 1])
    return f"https://{region}.console.aws.amazon.com/s3/buckets/{quote(bucket)}?region={region}&prefix={prefix}"


def cluster_address(region: str, cluster: str = "") -> str:
    """Return the address of a cluster's page in the console of Amazon EKS, or of the list of all clusters.

    Guides to Amazon EKS on GitHub link clusters in this form. No published program that prints it is known.
    """
    address = f"https://{region}.console.aws.amazon.com/eks/clusters"
    return f"{address}/{cluster}?region={region}" if cluster else f"{address}?region={region}"
