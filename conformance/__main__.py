"""`python -m conformance`: checks the claims in a localcloud, or in the AWS account given with --account."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import conformance.claims  # noqa: F401 - declares them
from conformance import not_modelled, pages, report
from conformance.account import RefusedError, account_place, remaining
from conformance.claim import CLAIMS, Outcome
from conformance.local import local_place
from conformance.runner import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.aws import Place
    from conformance.claim import Claim
    from conformance.runner import Result

LOCAL_WORKERS, LOCAL_INSTANCES = 24, 8
ACCOUNT_WORKERS = 32  # most of them wait for AWS most of the time


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite.

    Returns:
        Exit status: 0 if every claim has its expected outcome and nothing is left, 1 if not, 2 if the run was refused.
    """
    options = _parser().parse_args(arguments)
    if not __debug__:
        print("Claims are assertions, which python -O removes. Run without -O.", file=sys.stderr)
        return 2
    if options.not_modelled:
        not_modelled.PAGE.write_text(not_modelled.written(not_modelled.PAGE.read_text(), CLAIMS))
        return 0
    if options.sources:
        print(pages.text(CLAIMS))
        return 0
    claims = [claim for claim in CLAIMS if not options.claim or {claim.name, claim.area} & set(options.claim)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # delete all resources, as after Ctrl-C
    with ExitStack() as stack:
        try:
            place = _place(options, claims, stack)
        except RefusedError as refusal:
            print(refusal, file=sys.stderr)
            return 2
        real = place.endpoint is None
        done = run(
            place,
            claims,
            workers=ACCOUNT_WORKERS if real else LOCAL_WORKERS,
            instances=options.instances if real else LOCAL_INSTANCES,
            on_result=_show,
        )
        remain = remaining(place, done.identifier) if real else []
    table = report.rows(done.results, real=real)
    report.write(options.report, table, places=["localcloud", "aws"] if real else ["localcloud"])
    print(report.text(table))
    print(_sentence(table, options.report))
    for arn in remain:
        print(f"still tagged with this run's id (training jobs are kept; others may disappear within minutes): {arn}")
    for what in done.left:
        print(f"NOT DELETED, delete it manually: {what}")
    good = all(_expected(result, real=real) for result in done.results)
    return 0 if good and not done.left and not done.interrupted else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("--account", default="", help="id of the account to check; by default a localcloud")
    parser.add_argument("--regions", default="us-east-1,eu-west-1", help="the home Region and a second Region")
    parser.add_argument("--budget", type=float, default=5.0, help="maximum estimated cost of the run in dollars")
    parser.add_argument("--yes", action="store_true", help="accept the estimated cost without a prompt")
    parser.add_argument("--instances", type=int, default=2, help="concurrent ml.m5.large training instances (a quota)")
    parser.add_argument("--claim", nargs="*", default=[], help="check only claims with these names or areas")
    parser.add_argument("--report", type=Path, default=Path("conformance-report.json"))
    parser.add_argument("--not-modelled", action="store_true", help="update the list in docs/localcloud.md, and exit")
    parser.add_argument("--sources", action="store_true", help="print the web pages of the claims, and exit")
    return parser


def _place(options: Any, claims: Sequence[Claim], stack: ExitStack) -> Place:
    if not options.account:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True))
        return stack.enter_context(local_place(Path(folder)))

    def agreed(question: str) -> bool:
        print(question)
        return bool(options.yes) or (sys.stdin.isatty() and input("Type yes: ") == "yes")

    return account_place(options.account, options.regions.split(","), options.budget, claims, agreed=agreed)


def _show(result: Result) -> None:
    print(f"{result.claim.name}: {report.in_local_cloud(result)} ({result.seconds:.0f} s)", flush=True)


def _expected(result: Result, *, real: bool) -> bool:
    if real:
        return result.outcome in (Outcome.MET, Outcome.DOCUMENTED)
    return report.in_local_cloud(result) is report.expected(result.claim)


def _sentence(table: Sequence[dict[str, str]], path: Path) -> str:
    place = "aws" if any(row["aws"] != "not run" for row in table) else "localcloud"
    counted = ", ".join(f"{number} {outcome}" for outcome, number in report.counts(table)[place].items())
    return f"{len(table)} claims in {place}: {counted}. The report is {path}; it contains no account id."


if __name__ == "__main__":
    sys.exit(main())
