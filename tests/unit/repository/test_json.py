"""JSON: text that other programs and people can write is read by `traingrid.strict_json` only."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_RAW = re.compile(r"\bjson\.loads?\(|\bJSONDecoder\(|\bfrom json import\b")
OWN_TEXT = {
    "traingrid/api/base_lines.py": "lines that this process has written as JSON",
    "traingrid/grid/deployment.py": "the environment of our own functions and containers",
    "traingrid/grid/framework_images.py": "the environment of our own functions and containers",
    "traingrid/grid/on_dataset.py": "a value that this process has written as JSON",
    "traingrid/manifest/json_row.py": "the reader of manifests: the same limits, with the messages of a line's errors",
    "traingrid/manifest/spec_file.py": "a specification of its caller, which this process has written as JSON",
    "traingrid/strict_json.py": "the reader itself",
    "traingrid/submission/journal.py": "a value that this process has written as JSON",
}
"""The files with raw reads of JSON, and the text that they read."""


def test_json_from_outside_is_read_with_limits() -> None:
    command = ["git", "ls-files", "traingrid/*.py", "lambda/*.py", "batch_job/*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    raw = [name for name in files if _RAW.search((ROOT / name).read_text())]
    assert sorted(raw) == sorted(OWN_TEXT)
