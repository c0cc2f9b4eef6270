"""Suppressed findings: each `noqa` and `type: ignore` names its rule, and the reason follows on the same line."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_SUPPRESSED = re.compile(r"# (?:noqa\b|type: ignore\b)")
_WITH_REASON = re.compile(r"# (?:noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*|type: ignore\[[\w, -]+\]) +[#-] *\w")


def test_every_suppression_has_a_reason() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [
        f"{name}:{number}: {line.strip()}"
        for name in listed.stdout.splitlines()
        if (ROOT / name).exists()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1)
        if _SUPPRESSED.search(line)
    ]
    assert lines
    assert [line for line in lines if not _WITH_REASON.search(line)] == []
