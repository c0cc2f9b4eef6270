import pytest

from rehearsal.account import ANY_ACCOUNT, account_of

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
def test_the_account_is_the_one_whose_buckets_and_images_are_named_most(text: str, account: str) -> None:
    assert account_of("grid", ["# grid.yaml", text]) == account
