from pathlib import Path

import pytest

from verification.rehearsal.account import ANY_ACCOUNT, account_of
from verification.rehearsal.rehearsal import read_script

BUCKET = "us-east-1,s3://grid-data-111122223333-us-east-1/a\n"
IMAGE = "444455556666.dkr.ecr.eu-west-1.amazonaws.com/grid/training:1"


@pytest.mark.parametrize(
    ("text", "account"),
    [
        (BUCKET, "111122223333"),
        ("s3://grid-output-111122223333-eu-west-1/checkpoints", "111122223333"),
        (IMAGE, "444455556666"),
        (BUCKET * 2 + IMAGE, "111122223333"),
        ("s3://my-grid-data-111122223333-us-east-1/a", ANY_ACCOUNT),
        ("s3://campaigns/grid/111122223333", ANY_ACCOUNT),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2", ANY_ACCOUNT),
        ("", ANY_ACCOUNT),
    ],
)
def test_the_account_is_the_one_named_most_often(text: str, account: str) -> None:
    assert account_of("grid", ["# grid.yaml", text]) == account


def test_the_account_in_the_grid_file_takes_precedence_over_the_manifest(tmp_path: Path) -> None:
    grid, manifest = tmp_path / "grid.yaml", tmp_path / "manifest.csv"
    grid.write_text(
        'name: grid\nhome: us-east-1\naccount: "123456789012"\nregions: {us-east-1: {account: "111122223333"}}\n'
        'images: {a: {repository: training, tag: "1"}}\njob: {image: a, instance_type: ml.m5.large}\n'
    )
    manifest.write_text(BUCKET)
    script = read_script(manifest, grid)
    assert (script.account, script.jobs[0].output) == (
        "123456789012",
        "s3://grid-output-111122223333-us-east-1/00000000/0/",
    )
