"""One grid of two Regions for all tests of this folder, and a manifest whose lines train with Horovod."""

from collections.abc import Iterator

import pytest

import traingrid as tg
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import control_plane, two_regions
from tests.e2e.small_program import uploaded_program
from tests.e2e.submissions import DIGITS, PATIENCE_SECONDS, REGIONS
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.aws.s3_uri import S3Uri
from traingrid.submission.status import SubmissionStatus


@pytest.fixture(scope="package")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A localcloud with one grid of two Regions for all tests of this folder."""
    with two_regions(tmp_path_factory.mktemp("cloud")) as running:
        yield running


@pytest.fixture(scope="package")
def plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    """The control plane as the CLI accesses it, with a user's environment."""
    with control_plane(cloud) as seen:
        yield seen


@pytest.fixture(scope="package")
def lines(plane: ControlPlane) -> list[str]:
    """Return one manifest line per Region, after uploading its data."""
    return [
        f"{region},{upload_folder(plane.deployment, DIGITS / f'campaign-{number}', region)}\n"
        for number, region in enumerate(REGIONS, start=1)
    ]


@pytest.fixture(scope="package")
def small(plane: ControlPlane, lines: list[str]) -> list[dict[str, str]]:
    """Return the fields of one line per Region that trains a small program on the same data as `lines`."""
    places = [line.strip().split(",") for line in lines]
    return [{"region": region, "s3_uri": uri, **uploaded_program(plane, region)} for region, uri in places]


@pytest.fixture(scope="package")
def trained(plane: ControlPlane, lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> SubmissionStatus:
    """Train a manifest with two valid lines, and a last one whose data is not TFRecord."""
    bucket = names.data_bucket("traingrid", plane.deployment.account, "us-east-1")
    for channel in ("train", "validation"):
        plane.storage.write(S3Uri(bucket, f"broken/{channel}/a.tfrecord"), b"not a record" * 100, "application/x")
    manifest = tmp_path_factory.mktemp("manifests") / "my digits+1.csv"
    manifest.write_text("".join([*lines, f"us-east-1,s3://{bucket}/broken\n"]))
    return tg.Grid(plane).submit(manifest).wait(timeout=PATIENCE_SECONDS, poll=0.5)
