"""The scanners cdk-nag, cfn-lint and checkov: every finding has a reason, and every reason has a finding."""

import copy
import json
from pathlib import Path
from typing import cast

import pytest
from aws_cdk import App, CfnResource, Stack, Validations
from aws_cdk import aws_s3 as s3

from stacks.grants import acknowledge, skip_in_checkov
from tests.integration.posture import checkov, lint, nag
from tests.integration.posture.configurations import CONFIGURATIONS, COVERING
from tests.integration.posture.findings import Finding, Scan, counts
from tests.integration.posture.scanners import Scans
from tests.integration.posture.synthesised import acknowledgments_kept_back, synthesised, validation
from tests.integration.stacks.templates import Template, cdk_context, resources


def test_there_are_at_least_twelve_configurations() -> None:
    assert len(CONFIGURATIONS) >= 12
    assert {len(grid.regions) for grid in CONFIGURATIONS.values()} >= {1, 2, 6, 12}
    assert len(COVERING) >= 12
    assert set(COVERING) <= set(CONFIGURATIONS)


def test_every_finding_has_a_reason(scans: Scans, scanner: str) -> None:
    findings = {name: sorted(map(str, scan.unexplained)) for name, scan in scans[scanner].items() if scan.unexplained}
    assert findings == {}


def test_every_reason_has_a_finding(scans: Scans, scanner: str) -> None:
    reasons = {name: sorted(map(str, scan.unused)) for name, scan in scans[scanner].items() if scan.unused}
    assert reasons == {}


def test_every_scanner_checks_its_rules_on_every_configuration(
    scans: Scans, scanner: str, configurations: tuple[str, ...]
) -> None:
    assert set(scans[scanner]) == set(configurations)
    assert all(scan.rules > 20 and scan.found for scan in scans[scanner].values())


def test_cdk_nag_detects_a_defect_and_an_unused_reason(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    with acknowledgments_kept_back() as kept:
        stack = Stack(app, "Stack")
        bucket = s3.Bucket(stack, "Bucket")
        acknowledge(bucket, "AwsSolutions-S1", "a reason that is needed")
        acknowledge(bucket, "AwsSolutions-SQS3", "a reason for another kind of resource")
        acknowledge(s3.Bucket(stack, "Second"), "NIST.800.53.R5-S3BucketVersioningEnabled", "needed as well")
    scans = nag.scan(app, kept)
    solutions = scans["AwsSolutions"]
    assert Finding("AwsSolutions-S10", "Stack/Bucket/Resource") in solutions.unexplained
    assert Finding("AwsSolutions-S1", "Stack/Second/Resource") in solutions.unexplained
    assert Finding("AwsSolutions-S1", "Stack/Bucket/Resource") in solutions.found - solutions.unexplained
    assert solutions.unused == {Finding("AwsSolutions-SQS3", "Stack/Bucket")}
    assert scans["NIST.800.53.R5"].unused == set()
    assert scans["NIST.800.53.R5"].unexplained


def test_the_cdk_refuses_an_invalid_template(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path), context=cdk_context())
    CfnResource(Stack(app, "Stack"), "Queue", type="AWS::SQS::Queue", properties={"VisibilityTimeout": "high"})
    Validations.of(app).add_plugins(validation())
    with pytest.raises(RuntimeError, match="CloudFormation Validate"):
        app.synth()


def test_cfn_lint_detects_a_defect() -> None:
    broken = _a_control_stack()
    (queue,) = resources(broken, "AWS::Batch::JobQueue").values()
    queue["Properties"]["Priority"] = "high"
    assert {rule for rule, _ in lint.findings(broken, "us-east-1")} - set(lint.EXPLAINED) == {"E3012"}


def test_checkov_detects_a_defect_and_an_unused_reason(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    stack = Stack(app, "Stack")
    bucket = s3.Bucket(stack, "Bucket", versioned=True)
    skip_in_checkov(bucket, "CKV_AWS_18", "a reason that is needed")
    skip_in_checkov(bucket, "CKV_AWS_21", "a reason that is not: it has versions")
    scan = checkov.scan({"planted": {"Stack": app.synth().stacks[0].template}})["planted"]
    name = f"Stack/{stack.get_logical_id(cast(s3.CfnBucket, bucket.node.default_child))}"
    assert Finding("CKV_AWS_53", name) in scan.unexplained
    assert Finding("CKV_AWS_18", name) in scan.found - scan.unexplained
    assert scan.unused == {Finding("CKV_AWS_21", name)}


def test_checkov_itself_reads_the_skips(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path / "out"))
    bucket = s3.Bucket(Stack(app, "Stack"), "Bucket")
    skip_in_checkov(bucket, "CKV_AWS_18", "a reason")
    (tmp_path / "scanned").mkdir()
    (tmp_path / "scanned" / "template.json").write_text(json.dumps(app.synth().stacks[0].template))
    results = checkov.run(tmp_path / "scanned")
    assert [check["check_id"] for check in results["skipped_checks"]] == ["CKV_AWS_18"]
    failed = {check["check_id"] for check in results["failed_checks"]}
    assert "CKV_AWS_53" in failed
    assert "CKV_AWS_18" not in failed


def test_a_rule_counts_once_per_configuration() -> None:
    here, there = Finding("A-1[x]", "here"), Finding("A-1[y]", "there")
    explained = Scan(rules=10, found=frozenset({here, there}), unexplained=frozenset(), unused=frozenset())
    broken = Scan(rules=10, found=frozenset({here, there}), unexplained=frozenset({here}), unused=frozenset())
    of = counts([explained, broken])
    assert (of.passed, of.acknowledged, of.failed) == (18, 1, 1)


def _a_control_stack() -> Template:
    return copy.deepcopy(synthesised("one Region, at home").templates["traingrid-control"])
