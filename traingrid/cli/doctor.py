"""`traingrid doctor`: reports problems that prevent a grid's training jobs, with the commands that fix them."""

from pathlib import Path

import click

from traingrid import names
from traingrid.api.submit import read_manifest
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.deploy.checkup.account import caller
from traingrid.deploy.checkup.finding import Finding, Verdict, with_grid_file
from traingrid.deploy.checkup.needs import Needs, cluster_needs
from traingrid.deploy.checkup.quotas import grid_needs, job_needs
from traingrid.deploy.checkup.whole import check_up
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings
from traingrid.manifest.line import NO_SUBMISSION, iter_jobs
from traingrid.text import printable

_STYLES = {Verdict.GOOD: "green", Verdict.WRONG: "red", Verdict.UNKNOWN: "yellow"}


def _rows(grid_file: Path) -> Schema[Finding]:
    return Schema(
        "check",
        Column("region", "string: The Region of the checked resource; empty for the account.", heading="Region"),
        Column("what", "string: The checked resource.", value=lambda finding: finding.subject, heading="what"),
        Column(
            "verdict",
            "string: good, wrong, or not checked.",
            value=lambda finding: finding.verdict.value,
            heading="verdict",
            style=lambda finding: _STYLES[finding.verdict],
        ),
        Column(
            "why", "string: The reason.", value=lambda finding: with_grid_file(finding.reason, grid_file), heading="why"
        ),
        Column(
            "fix",
            "string: The command or action that fixes the problem; empty without a problem.",
            value=lambda finding: with_grid_file(finding.fix, grid_file),
        ),
    )


@click.command()
@click.argument("manifest", required=False, type=click.Path(path_type=Path, dir_okay=False))
@output_option(_rows(Path("grid.yaml")))
@click.pass_obj
def doctor(grid_file: Path, manifest: Path | None, *, output: Output) -> None:
    """Check account, stacks, quotas and clusters.

    Checks credentials, Regions, quotas, networks, stacks, buckets, roles, images and clusters of Amazon EKS, and
    changes nothing. Works before the first deployment and after it. SageMaker's quotas and networks are compared with
    the needs of MANIFEST's jobs that may run there, or of one job with grid.yaml's defaults. In clusters, the kinds of
    objects and the queues of MANIFEST's lines are checked, too.
    """
    grid = load_grid(grid_file)
    account, arn = caller(grid.home)
    needs = needs_of(grid, account, manifest)
    echo = sentence_printer(output)
    echo(printable(f"account {account}, as {arn}"))
    findings = list(check_up(grid, account, needs))
    write_rows(findings, _rows(grid_file), output)
    wrong = sum(finding.verdict is Verdict.WRONG for finding in findings)
    unknown = sum(finding.verdict is Verdict.UNKNOWN for finding in findings)
    for finding in findings:
        if finding.fix:
            echo(printable(f"{finding.region} {finding.subject}: {with_grid_file(finding.fix, grid_file)}"))
    echo(f"{len(findings)} checks: {wrong} wrong, {unknown} could not be checked")
    if wrong:
        raise TraingridError(f"{wrong} of {len(findings)} checks failed; fixes are listed above.")


def needs_of(grid: GridSettings, account: str, manifest: Path | None) -> Needs:
    """Return the needs of a manifest's jobs; without a manifest, of one job with grid.yaml's defaults.

    Raises:
        ManifestError: The manifest is invalid.
    """
    if manifest is None:
        return Needs(instances=grid_needs(grid))
    deployment = _expected_deployment(grid, account)
    lines, _ = read_manifest(manifest, deployment)
    instances = job_needs(iter_jobs(lines, deployment, NO_SUBMISSION))
    return Needs(instances=instances, clusters=cluster_needs(lines, grid))


def _expected_deployment(grid: GridSettings, account: str) -> Deployment:
    """Return the deployment that a grid would have, to read a manifest before the grid is deployed."""
    bucket = names.manifest_bucket(grid.name, account, grid.home)
    return Deployment(grid=grid, account=account, table="", manifest_bucket=bucket)
