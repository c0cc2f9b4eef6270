"""The store of a cluster: rules that need a clock of the test."""

from datetime import UTC, datetime, timedelta

import pytest

from localcloud.kubernetes.resources import POD
from localcloud.kubernetes.store import Store

START = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("later", "grace", "end", "kept"),
    [
        (10, 60, 60, 60),
        (10, 600, 600, 600),
        (10, 900, 600, 600),
        (10, 0, 10, 0),
        (90, 60, 90, 1),
    ],
    ids=["shorter", "equal", "longer", "kubelet", "shorter than the time that has passed"],
)
def test_a_second_deletion_can_only_shorten_the_grace_period_of_the_first(
    later: int, grace: int, end: int, kept: int
) -> None:
    """Source: BeforeDelete in staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go of Kubernetes."""
    now = [START]
    store = Store(lambda: now[0])
    store.create(POD, "default", {"metadata": {"name": "a", "finalizers": ["batch.kubernetes.io/job-tracking"]}})
    store.delete(POD, "default", "a", grace_seconds=lambda _: 600)
    now[0] += timedelta(seconds=later)
    found, is_gone = store.delete(POD, "default", "a", grace_seconds=lambda _: grace)
    metadata = found["metadata"]
    assert not is_gone
    assert datetime.fromisoformat(metadata["deletionTimestamp"]) == START + timedelta(seconds=end)
    assert metadata["deletionGracePeriodSeconds"] == kept
