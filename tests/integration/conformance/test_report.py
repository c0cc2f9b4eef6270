"""Reports: their columns, and the redaction of account data."""

import json
from pathlib import Path
from typing import Any

from conformance import report
from conformance.claim import Claim, Outcome
from conformance.runner import Result
from conformance.sources import page


def claim(name: str = "it", **more: Any) -> Claim:
    source = page("https://docs.aws.amazon.com/")
    return Claim(
        name=name, area="a", sentence="It is.", sources=(source,), used_by=("x",), check=lambda aws: None, **more
    )


def test_places_agree_only_if_their_outcomes_are_equal() -> None:
    results = [
        Result(claim=claim("same"), outcome=Outcome.MET),
        Result(claim=claim("other"), outcome=Outcome.NOT_MET, detail="why"),
        Result(claim=claim("left_out", not_modelled="not supported"), outcome=Outcome.MET),
    ]
    rows = {row["claim"]: row for row in report.rows(results, real=True)}
    assert [rows[name]["agree"] for name in ("same", "other", "left_out")] == ["yes", "no", "no"]
    assert rows["left_out"]["localcloud"] == "not modelled"
    assert rows["left_out"]["reason"] == "not supported"


def test_a_local_run_leaves_the_aws_column_empty() -> None:
    (row,) = report.rows([Result(claim=claim(), outcome=Outcome.MET)], real=False)
    assert (row["localcloud"], row["aws"], row["agree"]) == ("met", "not run", "-")


def test_reports_contain_no_account_key_or_role_ids(tmp_path: Path) -> None:
    secret = (
        "User: arn:aws:sts::210987654321:assumed-role/x is not authorized (AROAEXAMPLEEXAMPLE12, AKIAIOSFODNN7EXAMPLE)"
    )
    path = tmp_path / "report.json"
    rows = report.rows([Result(claim=claim(), outcome=Outcome.NOT_MET, detail=secret)], real=True)
    report.write(path, rows, places=["210987654321"])
    for word in ("210987654321", "AROA", "AKIA"):
        assert word not in path.read_text() + report.text(rows)
    assert json.loads(path.read_text())["counts"]["aws"] == {"not met": 1}
