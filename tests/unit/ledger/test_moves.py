"""Items of copies: the bytes that each job has transferred."""

from dataclasses import replace

from traingrid.ledger.moves import MoveItem

FIRST = MoveItem(
    target="s3://b/copy", source="s3://a/x", region="eu-west-1", from_region="us-east-1", job="a/0", bytes=100,
    missing_bytes=80,
)  # fmt: skip


def test_an_unfinished_copy_has_transferred_its_verified_bytes_without_those_that_existed() -> None:
    assert FIRST.transferred == {}
    assert replace(FIRST, copied_bytes=70).transferred == {"a/0": 50}
    assert replace(FIRST, copied_bytes=70, state="copied").transferred == {"a/0": 80}


def test_a_job_that_continues_a_copy_has_only_transferred_the_rest() -> None:
    earlier = FIRST.transferred_before(missing_bytes=30)
    second = replace(FIRST, job="b/1", missing_bytes=30, earlier=earlier, state="copied")
    assert second.transferred == {"a/0": 50, "b/1": 30}


def test_a_copy_that_a_job_makes_again_counts_twice() -> None:
    pruned = replace(FIRST, state="pruned")
    again = replace(pruned, state="copied", missing_bytes=100, earlier=pruned.transferred_before(missing_bytes=100))
    assert again.transferred == {"a/0": 180}
