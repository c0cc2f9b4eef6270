"""Requirements of commands that an installation may lack: extras, the checkout and Node.js."""

import importlib.util
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import traingrid
from traingrid.errors import UsageError

LOCAL = ("localcloud", "moto", "flask", "flask_cors", "lightkube", "msgspec")
"""Modules of the extra `local`: the local AWS, moto, its web server, and the description of Kubernetes' objects."""
CATALOG = ("sqlalchemy", "alembic", "psycopg")
"""Modules of the extra `catalog`."""
PLAN = (*CATALOG, "numpy", "highspy")
"""Modules of the extra `plan`."""
UI = ("starlette", "uvicorn")
"""Modules of the extra `ui`."""
_SET_UP = "In a checkout, run `make setup-control`, and then this command as .venv/bin/traingrid."
_FOLDER = Path(traingrid.__file__).resolve().parents[1]


def require_extra(extra: str, modules: Sequence[str]) -> None:
    """Check that the packages of an extra are installed.

    Args:
        extra: Name of the extra in pyproject.toml.
        modules: Top-level modules that the extra installs.

    Raises:
        UsageError: A module is missing.
    """
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        text = f"This command requires the Python package {missing[0]}, which the extra `{extra}` installs."
        sources = "./localcloud " if extra == "local" else ""  # its second distribution, in the same checkout
        raise UsageError(text, f"In a checkout of traingrid, run: pip install {sources}'.[{extra}]'.")


def checkout() -> Path | None:
    """Return the checkout that contains this package, or None if the package is installed without one."""
    return _FOLDER if (_FOLDER / "cdk.json").is_file() and (_FOLDER / "app.py").is_file() else None


def require_checkout(part: str) -> Path:
    """Return the checkout that contains this package.

    Args:
        part: The part of the checkout that the command requires, for the error.

    Raises:
        UsageError: The package is installed without a checkout, or without its checks.
    """
    folder = checkout()
    if folder is None:
        text = f"This command requires {part}, which an installed package lacks: traingrid runs from {_FOLDER}."
        raise UsageError(text, _SET_UP)
    if importlib.util.find_spec("verification") is None:
        raise UsageError("This command requires the checks of the checkout, which this Python does not have.", _SET_UP)
    return folder


def require_cdk() -> None:
    """Check that the CDK application of the checkout can be synthesized and deployed.

    Raises:
        UsageError: The checkout, Node.js, the CDK CLI or the libraries of the Lambda functions are missing.
    """
    root = require_checkout("the CDK application of a checkout")
    setup = f"make -C {shlex.quote(str(root))} setup-control"
    if shutil.which("node") is None:
        text = "This command requires Node.js for the CDK CLI, and PATH has no program `node`."
        raise UsageError(text, f"Run `{setup}`: it prints the command that installs Node.js.")
    for path in ("node_modules/.bin/cdk", ".venv/bin/python", "build/layer/python"):
        if not (root / path).exists():
            raise UsageError(f"This command requires {root / path}, which does not exist.", f"Create it: {setup}.")
