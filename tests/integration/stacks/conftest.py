from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.stacks.templates import Template, a_grid, synthesise


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like that of `make setup`, with one library file."""
    folder = tmp_path_factory.mktemp("layer")
    (folder / "python").mkdir()
    (folder / "catalog" / "python").mkdir(parents=True)
    (folder / "python" / "library.py").write_text("ANSWER = 42\n")
    return folder


@pytest.fixture(scope="session")
def templates(layer: Path) -> Callable[[int], dict[str, Template]]:
    """A function that returns the templates of a grid by its number of training Regions, cached."""
    made: dict[int, dict[str, Template]] = {}

    def of(regions: int) -> dict[str, Template]:
        if regions not in made:
            made[regions] = synthesise(a_grid(regions), layer)
        return made[regions]

    return of


@pytest.fixture(scope="session")
def control(templates: Callable[[int], dict[str, Template]]) -> Template:
    return templates(4)["traingrid-control"]


@pytest.fixture(scope="session")
def oregon(templates: Callable[[int], dict[str, Template]]) -> Template:
    return templates(4)["traingrid-us-west-2"]


@pytest.fixture(scope="module")
def grid_templates(layer: Path) -> dict[str, Template]:
    """The templates of a grid with two Regions that only builds the orchestrator's image."""
    return synthesise(a_grid(2), layer)


@pytest.fixture(scope="module")
def builds(grid_templates: dict[str, Template]) -> Template:
    """The template of its builds."""
    return grid_templates["traingrid-builds"]
