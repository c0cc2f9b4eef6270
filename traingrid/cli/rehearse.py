"""`traingrid rehearse`: runs a manifest on this machine with injected faults, before it costs money in AWS."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from traingrid.child.cost import dollars
from traingrid.cli.audit import AUDIT_ROWS, account, audit_rows
from traingrid.cli.console import console
from traingrid.cli.export import output_option, sentence_printer, write_rows
from traingrid.cli.installed import LOCAL, require_cdk, require_extra
from traingrid.errors import TraingridError, interrupted
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.cli.export import Output
    from verification.rehearsal.rehearsal import Rehearsal, Script

_NOT_SHOWN = """\
Nothing was sent from this machine.
Not covered: your training program; whether data and images exist (traingrid submit --plan); the quotas and capacity of
your account; instance types, speed and disk sizes, which the local AWS does not model."""


@click.command()
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Random seed for the injected faults.",
)
@output_option(AUDIT_ROWS)
@click.pass_obj
def rehearse(grid_file: Path, manifest: Path, *, seed: int, output: Output) -> None:
    """Run MANIFEST locally, with injected faults.

    Deploys grid.yaml into a local AWS that exists as long as the command, with stubs for trainings: calls, events and
    processes are lost, and the result is audited. Costs nothing and needs no AWS account.
    """
    require_cdk()
    require_extra("local", LOCAL)
    from verification.rehearsal.rehearsal import read_script
    from verification.rehearsal.rehearsal import rehearse as run

    script = read_script(manifest, grid_file)
    if output == "table":
        _print_script(script)
    started = time.monotonic()
    out = Console(stderr=True, highlight=False) if output != "table" else console()
    with _interruptible(), out.status("starting") as status:
        rehearsal = run(script, seed, status.update)
    if output == "table":
        _print_rehearsal(rehearsal, time.monotonic() - started)
    else:
        write_rows(audit_rows(rehearsal.violations), AUDIT_ROWS, output)
    sentence_printer(output)(f"{account(rehearsal.violations)}, violations {len(rehearsal.violations)}, seed {seed}")
    if rehearsal.violations:
        violated = counted(len(rehearsal.violations), "invariant violation")
        text = f"{violated}. Do not submit this manifest."
        step = f"Report it with the manifest, grid.yaml, the seed and the record of accepted calls: {rehearsal.record}."
        raise TraingridError(text, step)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: in both cases the rehearsal's processes end and its files are deleted."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        text = "Interrupted. The rehearsal's processes have ended; nothing was submitted to AWS."
        raise interrupted("", text) from None
    finally:
        signal.signal(signal.SIGTERM, previous)


def _print_script(script: Script) -> None:
    from verification.rehearsal.report import asked_table

    count, orchestrator = len(script.jobs), script.grid.orchestrator
    click.echo(f"{script.manifest.name}: {counted(count, 'job')}, account {script.account}. In AWS it asks for:")
    console().print(asked_table(script.jobs))
    hourly = dollars(orchestrator, 3600) * count
    click.echo(f"and one Batch child for each job, ${hourly:,.2f} for every hour in which all of them run.\n")


def _print_rehearsal(rehearsal: Rehearsal, seconds: float) -> None:
    from verification.rehearsal.fault_plan import STUB_SECONDS
    from verification.rehearsal.report import ends_table, faults_table, unfinished

    out = console()
    out.print(faults_table(rehearsal.struck))
    out.print()
    out.print(ends_table(rehearsal.world))
    for sentence in unfinished(rehearsal.world):
        click.echo(sentence)
    for number, pass_results in enumerate(rehearsal.passes, start=1):
        counts = {
            effect: results if isinstance(results, int) else len(results) for effect, results in pass_results.items()
        }
        effects = ", ".join(f"{effect} {count}" for effect, count in counts.items() if count)
        click.echo(f"pass {number} of the reconciler: {effects or 'nothing to do'}")
    for violation in rehearsal.violations:
        click.echo(printable(str(violation)))
    click.echo(f"\n{seconds:.0f} s, with stubs of {STUB_SECONDS:g} s for trainings. {_NOT_SHOWN}")
