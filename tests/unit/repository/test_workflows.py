"""GitHub workflows, hooks and the documentation's navigation agree with the repository."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags for Python objects have no meaning here."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]


def targets() -> set[str]:
    """Return the targets of the Makefile and of the files that it includes."""
    text = "".join(path.read_text() for path in (ROOT / "Makefile", *ROOT.glob("*/*.mk")))
    rules = re.findall(r"^([a-z][a-z -]*):(?!=)", text, re.MULTILINE)
    return {target for rule in rules for target in rule.split()}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_can_only_read(workflow: Path) -> None:
    text = yaml.safe_load(workflow.read_text())
    assert text["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in text["jobs"].values())
    checkouts = [step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text())
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_existing_targets(workflow: Path) -> None:
    called = re.findall(r"\bmake ([a-z-]+)$", "\n".join(step.get("run", "") for step in steps(workflow)), re.MULTILINE)
    assert called or "pytest" in workflow.read_text()
    assert set(called) <= targets()


def test_every_supported_python_is_tested() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    supported = re.findall(r"Programming Language :: Python :: ([\d.]+)", project)
    fast = yaml.safe_load((ROOT / ".github/workflows/fast.yml").read_text())
    assert fast["jobs"]["unit"]["strategy"]["matrix"]["python"] == supported


def test_hooks_use_the_locked_tools() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    for hook in hooks[0]["hooks"]:
        program, _, rest = hook["entry"].partition(" ")
        assert program.startswith(".venv/bin/") or (program == "make" and rest in targets())


def test_the_navigation_has_the_order_of_the_index() -> None:
    navigation = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]
    sections = [entry[name] for entry in navigation for name in entry if isinstance(entry[name], list)]
    pages = [page.removeprefix("docs/") for section in sections for page in section if page.startswith("docs/")]
    rows = re.findall(r"^\| \[[^]]*\]\(([^)]*)\)", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert pages == rows
