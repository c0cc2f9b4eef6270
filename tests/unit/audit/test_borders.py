"""Borders: only the bytes that a submission's jobs have brought to another Region are listed."""

from traingrid.audit.borders import border_crossings
from traingrid.ledger.moves import MoveItem


def copied(target: str, job: str, **fields: object) -> MoveItem:
    facts: dict[str, object] = {"region": "eu-west-1", "from_region": "us-east-1", "state": "copied"}
    return MoveItem(target=target, source="s3://a/m", job=job, bytes=10, missing_bytes=10, **facts | fields)  # type: ignore[arg-type]  # the fields' types are the caller's


def test_copies_of_other_submissions_and_within_a_region_are_left_out() -> None:
    items = [
        copied("s3://b/1", "0a1b2c3d/0"),
        copied("s3://b/2", "0a1b2c3d/1", from_region="eu-west-1"),
        copied("s3://b/3", "89abcdef/0"),
        copied("s3://b/4", "89abcdef/0", earlier={"0a1b2c3d/2": 4}),
    ]
    crossed = list(border_crossings(items, "0a1b2c3d"))
    assert [(each.job, each.target, each.bytes) for each in crossed] == [
        ("0a1b2c3d/0", "s3://b/1", 10),
        ("0a1b2c3d/2", "s3://b/4", 4),
    ]
    assert (crossed[0].from_region, crossed[0].to_region) == ("us-east-1", "eu-west-1")
