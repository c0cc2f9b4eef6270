"""Synthesized configurations: templates and cdk-nag's findings, created once and shared by all checks."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aws_cdk import Acknowledgment, CloudFormationValidatePlugin, Validations
from constructs import IConstruct

from tests.integration.posture import nag
from tests.integration.posture.configurations import CONFIGURATIONS
from tests.integration.posture.findings import Scan
from tests.integration.stacks.templates import Template, an_app
from traingrid.grid.model import GridSettings

Resource = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Synthesised:
    """A grid and its templates.

    Attributes:
        grid: The grid.
        templates: The templates by stack name.
        regions: The Region of each stack.
        accounts: The account of each stack; "unknown-account" if it is not fixed.
        after: The stacks that each stack depends on.
        nag: cdk-nag's scans of the construct tree, by rule pack.
    """

    grid: GridSettings
    templates: dict[str, Template]
    regions: dict[str, str]
    accounts: dict[str, str]
    after: dict[str, set[str]]
    nag: dict[str, Scan]

    def each(self, kind: str) -> Iterator[tuple[str, str, Resource]]:
        """Yield the stack, logical id and resource of all resources of one type."""
        for stack, template in self.templates.items():
            for name, resource in template["Resources"].items():
                if resource["Type"] == kind:
                    yield stack, name, resource

    def properties(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield `stack/logical id` and the properties of all resources of one type."""
        for stack, name, resource in self.each(kind):
            yield f"{stack}/{name}", resource.get("Properties", {})


@cache
def synthesised(name: str) -> Synthesised:
    """Return the synthesized configuration with this name, cached."""
    with tempfile.TemporaryDirectory(prefix="traingrid-posture-") as folder:
        return synthesise(CONFIGURATIONS[name], Path(folder))


def synthesise(grid: GridSettings, folder: Path) -> Synthesised:
    """Return a grid's templates, and cdk-nag's findings with and without acknowledgments; uses `folder` for output."""
    layer = folder / "layer"
    (layer / "python").mkdir(parents=True)
    (layer / "catalog" / "python").mkdir(parents=True)
    (layer / "python" / "library.py").write_text("ANSWER = 42\n")
    with acknowledgments_kept_back() as kept:
        app = an_app(grid, layer, folder / "out")
    Validations.of(app).add_plugins(validation())
    scans = nag.scan(app, kept)
    assembly = app.synth()
    return Synthesised(
        grid=grid,
        templates={stack.stack_name: stack.template for stack in assembly.stacks},
        regions={stack.stack_name: stack.environment.region for stack in assembly.stacks},
        accounts={stack.stack_name: stack.environment.account for stack in assembly.stacks},
        after={stack.stack_name: _dependencies(folder / "out", stack.stack_name) for stack in assembly.stacks},
        nag=scans,
    )


@cache
def validation() -> CloudFormationValidatePlugin:
    """Return the CDK's own validation, which fails the synthesis of an invalid template; takes seconds to load."""
    return CloudFormationValidatePlugin()


@contextmanager
def acknowledgments_kept_back() -> Iterator[list[nag.Acknowledged]]:
    """Collect acknowledgments instead of recording them, so that cdk-nag can run without them first."""
    kept: list[nag.Acknowledged] = []

    class KeptBack:
        """Replaces the CDK's Validations in this block."""

        def __init__(self, construct: IConstruct) -> None:
            self.construct = construct

        @classmethod
        def of(cls, construct: IConstruct) -> "KeptBack":
            return cls(construct)

        def acknowledge(self, *acknowledgments: Acknowledgment) -> None:
            kept.extend(nag.Acknowledged(construct=self.construct, acknowledgment=one) for one in acknowledgments)

    with patch("stacks.grants.Validations", KeptBack):
        yield kept


def _dependencies(assembly: Path, stack: str) -> set[str]:
    manifest = json.loads((assembly / "manifest.json").read_text())
    return set(manifest["artifacts"][stack].get("dependencies", ()))
