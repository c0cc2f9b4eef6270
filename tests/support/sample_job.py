"""Sample job: the job of a line that trains on one small instance."""

from tests.support.sample_deployment import ACCOUNT
from traingrid import names
from traingrid.job.job import Channel, Job


def sample_job(region: str, index: int = 0) -> Job:
    """Return a job of the grid `traingrid`, which reads and writes the Region's data bucket."""
    bucket = names.data_bucket("traingrid", ACCOUNT, region)
    return Job(
        index=index,
        line=index + 1,
        name=f"job-{index}",
        region=region,
        inputs={"train": Channel(uri=f"s3://{bucket}/x/")},
        image=f"{ACCOUNT}.dkr.ecr.{region}.amazonaws.com/traingrid/training:v1",
        instance_type="ml.m5.large",
        instance_count=1,
        volume_gb=5,
        max_runtime_seconds=600,
        processes_per_host=1,
        mpi_options="",
        output=f"s3://{bucket}/out/",
    )
