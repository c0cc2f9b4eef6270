"""Checkov: scans the templates of all configurations, in a single run in its own environment."""

import copy
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.posture.findings import Finding, Scan
from tests.integration.stacks.templates import ROOT, Template

PROGRAM = ROOT / ".venv-scanners" / "bin" / "checkov"
OPTIONS = ("--framework", "cloudformation", "--output", "json", "--compact", "--soft-fail", "--skip-download")
OFFLINE = {"BC_SKIP_MAPPING": "TRUE", "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
"""The rules are in the package. From its vendor, checkov would request names and severities of rules. No server uses
port 9, so any request fails."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Checkov's findings in one template."""

    rules: frozenset[str]
    found: frozenset[Finding]
    unexplained: frozenset[Finding]
    unused: frozenset[Finding]


def scan(configurations: Mapping[str, Mapping[str, Template]]) -> dict[str, Scan]:
    """Return checkov's scan of each configuration's templates."""
    verdicts = _verdicts([template for templates in configurations.values() for template in templates.values()])
    return {
        name: _scan({stack: verdicts[_digest(template)] for stack, template in templates.items()})
        for name, templates in configurations.items()
    }


def _scan(verdicts: Mapping[str, Verdict]) -> Scan:
    def of(findings: Iterable[tuple[str, Finding]]) -> frozenset[Finding]:
        return frozenset(Finding(finding.rule, f"{stack}/{finding.where}") for stack, finding in findings)

    return Scan(
        rules=len({rule for verdict in verdicts.values() for rule in verdict.rules}),
        found=of((stack, finding) for stack, verdict in verdicts.items() for finding in verdict.found),
        unexplained=of((stack, finding) for stack, verdict in verdicts.items() for finding in verdict.unexplained),
        unused=of((stack, finding) for stack, verdict in verdicts.items() for finding in verdict.unused),
    )


def _verdicts(templates: Iterable[Template]) -> dict[str, Verdict]:
    """Return checkov's verdicts on templates by their digests.

    Checkov checks each template without its skips, because it does not evaluate a rule that a resource skips.
    """
    distinct = {_digest(template): template for template in templates}
    with tempfile.TemporaryDirectory(prefix="traingrid-checkov-") as folder:
        for digest, template in distinct.items():
            (Path(folder) / f"{digest}.json").write_text(json.dumps(_without_skips(template)))
        results = run(Path(folder))
    asked, failed = _by_file(results, "passed_checks", "failed_checks"), _by_file(results, "failed_checks")
    return {
        digest: _verdict(asked.get(digest, set()), failed.get(digest, set()), frozenset(_skips(template)))
        for digest, template in distinct.items()
    }


def _verdict(asked: set[Finding], failed: set[Finding], skips: frozenset[Finding]) -> Verdict:
    """Return the verdict on a template; no rule applies to one that has only a custom resource."""
    return Verdict(
        rules=frozenset(finding.rule for finding in asked),
        found=frozenset(failed),
        unexplained=frozenset(failed) - skips,
        unused=skips - failed,
    )


def run(folder: Path) -> dict[str, Any]:
    """Return checkov's report on a folder. Raises FileNotFoundError if its environment was not created."""
    if not PROGRAM.exists():
        raise FileNotFoundError(f"{PROGRAM}: checkov is not installed. Run `make setup-scanners` once.")
    ended = subprocess.run(
        [PROGRAM, "--directory", folder, *OPTIONS],
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        check=True,
    )
    report: dict[str, Any] = json.loads(ended.stdout)
    assert report["summary"]["parsing_errors"] == 0, ended.stderr
    return dict(report["results"])


def _by_file(results: Mapping[str, Any], *kinds: str) -> dict[str, set[Finding]]:
    found: dict[str, set[Finding]] = {}
    for kind in kinds:
        for check in results[kind]:
            name = check["resource"].rpartition(".")[2]
            found.setdefault(Path(check["file_path"]).stem, set()).add(Finding(check["check_id"], name))
    return found


def _skips(template: Template) -> Iterator[Finding]:
    for name, resource in template["Resources"].items():
        for skip in resource.get("Metadata", {}).get("checkov", {}).get("skip", ()):
            yield Finding(skip["id"], name)


def _without_skips(template: Template) -> Template:
    bare = copy.deepcopy(template)
    for resource in bare["Resources"].values():
        resource.get("Metadata", {}).pop("checkov", None)
    return bare


def _digest(template: Template) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:20]
