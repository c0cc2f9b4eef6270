"""Scanners: runs every scanner on every configuration."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tests.integration.posture import checkov, lint, nag
from tests.integration.posture.findings import Scan
from tests.integration.posture.synthesised import Synthesised, synthesised

Scans = dict[str, dict[str, Scan]]
"""Scans by scanner and configuration."""

SCANNERS = (*nag.PACKS, "cfn-lint", "checkov")


def of_lane(lane: str | None) -> tuple[str, ...]:
    """Return the names of the scanners that run in a lane (tests/support/lanes.py).

    cfn-lint takes a second per template, and the CDK, too, checks each one by CloudFormation's schemas. Therefore it
    runs in `make test` and in `make check` only.
    """
    return tuple(name for name in SCANNERS if lane != "rest" or name != "cfn-lint")


def scan_everything(configurations: Iterable[str], scanners: Iterable[str]) -> Scans:
    """Return the scans of the named configurations by the named scanners."""
    made = {name: synthesised(name) for name in configurations}
    scans: dict[str, Callable[[], dict[str, Scan]]] = {
        **{pack: partial(_of_nag, made, pack) for pack in nag.PACKS},
        "cfn-lint": lambda: {name: lint.scan(configuration) for name, configuration in made.items()},
        "checkov": lambda: checkov.scan({name: configuration.templates for name, configuration in made.items()}),
    }
    return {scanner: scans[scanner]() for scanner in scanners}


def _of_nag(made: Mapping[str, Synthesised], pack: str) -> dict[str, Scan]:
    return {name: configuration.nag[pack] for name, configuration in made.items()}
