"""The manifest of a rehearsal: lines that need the deployed grid are refused before anything starts."""

import json
from pathlib import Path

import pytest

from traingrid.errors import UsageError
from verification.rehearsal.rehearsal import read_script

ROOT = Path(__file__).resolve().parents[4]


def test_a_line_that_begins_with_an_earlier_model_is_refused(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.jsonl"
    data = "s3://traingrid-data-123456789012-us-east-1/x"
    manifest.write_text(json.dumps({"region": "us-east-1", "s3_uri": data, "init_from": "0123abcd/2"}) + "\n")
    with pytest.raises(UsageError, match=r"manifest\.jsonl:1: init_from 0123abcd/2 is a job of the deployed grid"):
        read_script(manifest, ROOT / "grid.yaml")
