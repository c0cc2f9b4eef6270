"""Scanners: runs every scanner on every configuration."""

from tests.integration.posture import checkov, lint, nag
from tests.integration.posture.configurations import CONFIGURATIONS
from tests.integration.posture.findings import Scan
from tests.integration.posture.synthesised import synthesised

Scans = dict[str, dict[str, Scan]]
"""Scans by scanner and configuration."""

SCANNERS = (*nag.PACKS, "cfn-lint", "checkov")


def scan_everything() -> Scans:
    """Return the scans of every configuration by every scanner."""
    made = {name: synthesised(name) for name in CONFIGURATIONS}
    return {
        **{pack: {name: one.nag[pack] for name, one in made.items()} for pack in nag.PACKS},
        "cfn-lint": {name: lint.scan(one) for name, one in made.items()},
        "checkov": checkov.scan({name: one.templates for name, one in made.items()}),
    }
