"""`python -m examples NAME`: run the demo of a folder; print an error or an interrupt as one sentence."""

import sys
from collections.abc import Sequence
from importlib import import_module

DEMOS = ("digits", "launchers", "torch_ddp", "torch_recipe", "catalog", "rounds")
_INTERRUPTED = 130
"""The exit code after Ctrl-C, as of `traingrid`; importing it would take time before `run` catches the key."""


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a demo, and return an exit code.

    The demo's module is imported here, because the imports alone take seconds, in which a user may press Ctrl-C.

    Args:
        name: The folder of the demo.
    """
    try:
        errors = import_module("traingrid.errors")
        try:
            return int(import_module(f"examples.{name}.demo").main(arguments))
        except errors.TraingridError as error:
            print(f"Error: {error}", file=sys.stderr)
            return int(error.exit_code)
    except KeyboardInterrupt:  # leaving the context manager has stopped the local AWS
        print("Interrupted. The demo's local AWS and its training jobs are stopped.", file=sys.stderr)
        return _INTERRUPTED


if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in DEMOS:
        sys.exit(f"Name one of the demos: {', '.join(DEMOS)}.")
    sys.exit(run(sys.argv[1], sys.argv[2:]))
