"""Fixtures of the reconciler: an account with training jobs, and its reconciler."""

import pytest

from tests.support.reconciler_world import World, a_reconciler
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger
from traingrid.reconciler.reconciler import Reconciler


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def reconciler(world: World, deployment: Deployment, ledger: Ledger) -> Reconciler:
    return a_reconciler(world, deployment, ledger)
