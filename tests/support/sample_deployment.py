"""Deployments: deployments for tests, without AWS."""

from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings

ACCOUNT = "123456789012"
REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "eu-central-1")
# The buckets of the documentation's plain manifest, which must always be accepted unchanged.
SAMPLE_BUCKETS = dict(zip(REGIONS, ("ragab-ml", "ragab-ml-pdx", "ragab-ml-dub", "ragab-ml-fra"), strict=True))
SAMPLE = """\
us-east-1,s3://ragab-ml/imagenet2012/tf-imagenet/resized
us-west-2,s3://ragab-ml-pdx/imagenet2012/tf-imagenet/resized
eu-west-1,s3://ragab-ml-dub/imagenet2012/tf-imagenet/resized
eu-central-1,s3://ragab-ml-fra/imagenet2012/tf-imagenet/resized
"""


def sample_deployment() -> Deployment:
    grid = GridSettings.model_validate(
        {
            "name": "traingrid",
            "home": "us-east-1",
            "regions": {region: {"data_buckets": [bucket]} for region, bucket in SAMPLE_BUCKETS.items()},
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": {
                "image": "resnet",
                "instance_type": "ml.p3.16xlarge",
                "processes_per_host": 8,
                "hyperparameters": {"model": "resnet50"},
            },
        }
    )
    return Deployment(
        grid=grid,
        account=ACCOUNT,
        table="ledger",
        manifest_bucket=f"traingrid-manifests-{ACCOUNT}-us-east-1",
        job_queue="queue",
        job_definition="definition",
    )
