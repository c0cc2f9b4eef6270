"""Series: sweeps and rounds are known by the keys of their manifests, and named by commands."""

import pytest

from traingrid.errors import UsageError
from traingrid.submission.series import Series


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("sweeps/rates/000000-abc.jsonl", "sweep:rates"),
        ("rounds/cells/000001-abc.jsonl", "rounds:cells"),
        ("rounds/cells/merge-001-abc.jsonl", "rounds:cells"),
        ("autumn.csv", "None"),
        ("my/sweeps/rates/a.csv", "None"),
        ("/a.csv", "None"),
    ],
)
def test_a_series_is_known_by_the_key_of_its_manifests(key: str, name: str) -> None:
    assert str(Series.of_manifest(f"s3://manifests/manifests/{key}")) == name


def test_a_name_without_a_kind_is_the_id_of_a_submission() -> None:
    assert Series.named("0a1b2c3d") is None
    assert Series.named("rounds:cells") == Series("rounds", "cells")


@pytest.mark.parametrize("text", ["round:cells", ":cells", "sweep:"])
def test_another_kind_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names neither a submission nor a sweep nor rounds"):
        Series.named(text)
