"""Every rule: our own rules, which the scanners lack."""

from tests.integration.posture.rules import (
    batch,
    clusters,
    data,
    events,
    generated_names,
    names,
    network,
    permissions,
    queues,
    roles,
)

RULES = (
    *batch.RULES,
    *queues.RULES,
    *network.RULES,
    *events.RULES,
    *data.RULES,
    *names.RULES,
    *generated_names.RULES,
    *permissions.RULES,
    *roles.RULES,
    *clusters.RULES,
)
