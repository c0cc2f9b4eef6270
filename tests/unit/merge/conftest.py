"""Models of jobs in several Regions, without AWS."""

from collections.abc import Callable

import pytest

from tests.support.sample_job import sample_job
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.job import Channel
from traingrid.merge.models import Model

Make = Callable[..., Model]


@pytest.fixture
def model() -> Make:
    """A function that returns the model of a job with these fields."""

    def make(index: int = 0, region: str = "us-east-1", **fields: object) -> Model:
        data = {name: Channel(uri=f"s3://data-{region}/day/{name}/") for name in ("train", "validation")}
        job = sample_job(region, index).model_copy(update={"inputs": data, "hyperparameters": {}, **fields})
        return Model(submission="0a1b2c3d", job=job, archive=S3Uri(f"output-{region}", f"{index}/model.tar.gz"))

    return make
