"""Scanners: runs every scanner on every configuration."""

from collections.abc import Iterable

from tests.integration.posture import checkov, lint, nag
from tests.integration.posture.findings import Scan
from tests.integration.posture.synthesised import synthesised

Scans = dict[str, dict[str, Scan]]
"""Scans by scanner and configuration."""

SCANNERS = (*nag.PACKS, "cfn-lint", "checkov")


def scan_everything(configurations: Iterable[str]) -> Scans:
    """Return the scans of the named configurations by every scanner."""
    made = {name: synthesised(name) for name in configurations}
    return {
        **{pack: {name: one.nag[pack] for name, one in made.items()} for pack in nag.PACKS},
        "cfn-lint": {name: lint.scan(one) for name, one in made.items()},
        "checkov": checkov.scan({name: one.templates for name, one in made.items()}),
    }
