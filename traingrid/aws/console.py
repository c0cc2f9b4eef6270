"""Console: addresses of pages of the AWS console."""

from __future__ import annotations

from urllib.parse import quote


def console_address(region: str, training_job: str = "") -> str:
    """Return the address of a training job's page in the AWS console, or of the list of all training jobs.

    AWS does not document it. The form is that of SageMaker's other pages (interactive_apps in
    https://github.com/aws/sagemaker-python-sdk), and public scripts use it with `#/jobs/`. It was not tried in AWS.
    """
    address = f"https://{region}.console.aws.amazon.com/sagemaker/home?region={region}#/jobs"
    return f"{address}/{training_job}" if training_job else address


def batch_job_address(region: str, job: str) -> str:
    """Return the address of a Batch job's page in the AWS console.

    AWS does not document it. The form is that of `BatchJobDetailsLink` of Apache Airflow
    (providers/amazon/aws/links/batch.py), and was not tried.
    """
    return f"https://{region}.console.aws.amazon.com/batch/home?region={region}#jobs/detail/{job}"


def folder_address(region: str, uri: str) -> str:
    """Return the address of the page of the folder that contains an S3 object, in the AWS console.

    AWS does not document it. The form is that of `EmrLogsLink` of Apache Airflow (providers/amazon/aws/links/emr.py),
    and was not tried.
    """
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    prefix = quote(key[: key.rfind("/") + 1])
    return f"https://{region}.console.aws.amazon.com/s3/buckets/{quote(bucket)}?region={region}&prefix={prefix}"


def cluster_address(region: str, cluster: str = "") -> str:
    """Return the address of a cluster's page in the console of Amazon EKS, or of the list of all clusters.

    AWS does not document it. The form is that of the console in 2026, and was not tried.
    """
    address = f"https://{region}.console.aws.amazon.com/eks/clusters"
    return f"{address}/{cluster}?region={region}" if cluster else f"{address}?region={region}"
