"""Clusters of Aurora DSQL and keys that remain; the lookup by tag is replaced, as the local AWS has no clusters."""

from pathlib import Path

import pytest

from tests.support.sample_grid import GOOD
from traingrid.deploy import retained
from traingrid.grid.file import load_grid


def test_a_cluster_is_listed_with_the_commands_that_delete_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def tagged(_: object, region: str, kind: str) -> list[str]:
        asked.append((region, kind))
        return ["arn:aws:dsql:us-east-1:123456789012:cluster/abc123"]

    monkeypatch.setattr(retained, "_tagged_arns", tagged)
    (tmp_path / "grid.yaml").write_text(GOOD)
    (found,) = retained._clusters(load_grid(tmp_path / "grid.yaml"))
    assert asked == [("us-east-1", "dsql:cluster")]
    assert (found.kind, found.name, found.dollars) == ("cluster", "abc123", None)
    unprotect, delete = found.remove.split(" && ")
    assert unprotect.endswith("update-cluster --region us-east-1 --identifier abc123 --no-deletion-protection-enabled")
    assert delete == "aws dsql delete-cluster --region us-east-1 --identifier abc123"


def test_a_key_that_is_deleted_or_will_be_does_not_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = {"key/used": {"KeyState": "Enabled"}, "key/scheduled": {"KeyState": "PendingDeletion"}, "key/gone": None}
    monkeypatch.setattr(retained, "_tagged_arns", lambda *_: list(states))
    monkeypatch.setattr(retained, "_described_key", lambda arn, _: states[arn])
    (tmp_path / "grid.yaml").write_text(GOOD)
    (found,) = retained._keys(load_grid(tmp_path / "grid.yaml"), "us-east-1")
    assert (found.kind, found.name) == ("key", "key/used")
