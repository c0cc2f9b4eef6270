"""copy_from: accepted for folders of two Regions of the grid, and refused with a sentence otherwise."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.submission.files import normalised

HERE = "s3://traingrid-data-123456789012-eu-west-1/copies/day1"
THERE = "s3://traingrid-data-123456789012-us-east-1/day1/1"
LINE = {"region": "eu-west-1", "s3_uri": HERE, "copy_from": THERE}


def deployment(*, moves: bool = True, **changes: Any) -> Deployment:
    made = sample_deployment()
    described = made.grid.model_dump(exclude_defaults=True) | {"moves": moves} | changes
    return replace(made, grid=GridSettings.model_validate(described))


def refusal(line: dict[str, Any], grid: Deployment | None = None) -> str:
    """Return the only error of a manifest with one line."""
    with pytest.raises(ManifestError) as raised:
        parse(json.dumps(line).encode(), grid or deployment())
    (error,) = raised.value.errors
    return str(error)


def test_a_job_has_both_folders() -> None:
    lines = parse(json.dumps(LINE).encode(), deployment())
    (job,) = jobs_of_lines(lines, deployment(), "0123abcd")
    assert (job.copy_from, job.copy_to) == (THERE, HERE)
    assert job.inputs["train"].uri.startswith(HERE)
    assert f'"copy_from":"{THERE}"'.encode() in normalised([job])[0]


def test_a_column_of_csv_holds_it() -> None:
    (line,) = parse(f"region,s3_uri,copy_from\neu-west-1,{HERE},{THERE}\n".encode(), deployment())
    assert str(line.copy_from) == THERE


def test_a_line_may_copy_from_a_bucket_of_data_buckets() -> None:
    (line,) = parse(json.dumps(LINE | {"copy_from": "s3://ragab-ml/x"}).encode(), deployment())
    assert str(line.copy_from) == "s3://ragab-ml/x"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"copy_from": "s3://foreign/x"}, "this grid may not read the bucket foreign"),
        ({"copy_from": HERE}, "is in eu-west-1 already"),
        ({"copy_from": THERE.partition("/day1")[0]}, "must name a folder in the bucket"),
        ({"copy_from": 3}, "must be text"),
        ({"copy_from": "day1"}, "the URI must start with s3://"),
        ({"s3_uri": "s3://ragab-ml-dub/x"}, "only to a folder of the grid's own data bucket, traingrid-data-1234"),
        ({"s3_uri": HERE.partition("/copies")[0]}, "only to a folder of the grid's own data bucket"),
        ({"replicas": {"us-east-1": THERE}}, "copy_from and replicas cannot be combined"),
        ({"s3_uri": None, "inputs": {"train": HERE}}, "copy_from and inputs cannot be combined"),
    ],
)
def test_other_copies_are_refused(changes: dict[str, Any], reason: str) -> None:
    line = {name: value for name, value in (LINE | changes).items() if value is not None}
    assert reason in refusal(line)


def test_a_grid_without_moves_refuses_copies() -> None:
    assert refusal(LINE, deployment(moves=False)) == (
        f"line 1, copy_from '{THERE}': this grid does not copy data between Regions. "
        "Write `moves: true` in grid.yaml and deploy, or remove copy_from."
    )


def test_copies_between_accounts_are_refused() -> None:
    regions: dict[str, Any] = {region: {} for region in ("us-east-1", "eu-west-1")} | {
        "us-west-2": {"account": "210987654321"}
    }
    grid = deployment(regions=regions, account="123456789012")
    there = "s3://traingrid-data-210987654321-us-west-2/x"
    assert "us-west-2 is in another account than the home Region" in refusal(LINE | {"copy_from": there}, grid)


def test_data_is_not_copied_out_of_the_residency_of_its_region() -> None:
    regions = deployment().grid.model_dump(exclude_defaults=True)["regions"]
    for region in ("us-east-1", "us-west-2"):
        regions[region]["residency"] = ["us"]
    limited = deployment(regions=regions)
    assert refusal(LINE | {"residency": ["eu", "us"]}, limited) == (
        f"line 1, copy_from '{THERE}': grid.yaml allows the data of us-east-1 only in us, not in eu-west-1. "
        "Train in us-east-1, or change `residency` of us-east-1 in grid.yaml and deploy."
    )
    target = HERE.replace("eu-west-1", "us-west-2")
    (line,) = parse(json.dumps({"region": "us-west-2", "s3_uri": target, "copy_from": THERE}).encode(), limited)
    assert line.region == "us-west-2"
    back = {"region": "us-east-1", "s3_uri": THERE, "copy_from": HERE}
    assert parse(json.dumps(back).encode(), limited), "data of a Region without residency may be copied into the US"
