"""Layout: the import direction between folders, and forbidden names of files."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = (
    "app.py",
    "stacks",
    "lambda",
    "batch_job",
    "traingrid",
    "localcloud",
    "verification",
    "conformance",
    "training_container",
)
# The packages that each folder must not import, including third-party libraries that are too large for it.
FORBIDDEN = {
    "traingrid": {
        "stacks",
        "localcloud",
        "verification",
        "training_container",
        "batch_job",
        "aws_cdk",
        "tensorflow",
        "moto",
    },
    "lambda": {
        *("stacks", "localcloud", "training_container", "batch_job", "aws_cdk", "tensorflow", "moto", "click"),
        *("sqlalchemy", "numpy", "highspy", "optuna"),
    },
    "batch_job": {
        *("stacks", "localcloud", "training_container", "aws_cdk", "tensorflow", "moto", "click"),
        *("sqlalchemy", "numpy", "highspy", "optuna"),
    },
    "stacks": {"localcloud", "training_container", "batch_job", "moto"},
    "app.py": {"localcloud", "training_container", "batch_job", "moto"},
    "localcloud": {
        *("stacks", "training_container", "batch_job", "verification", "conformance", "aws_cdk", "tensorflow"),
        *("traingrid", "examples", "bench", "tests"),
    },
    "conformance": {"stacks", "traingrid", "training_container", "batch_job", "verification", "aws_cdk", "moto"},
    "verification": {"stacks", "training_container", "batch_job", "conformance", "aws_cdk", "tensorflow"},
    "training_container": {"stacks", "localcloud", "batch_job", "traingrid", "aws_cdk", "moto"},
}
PARTS = {
    "traingrid": (
        *(
            "algorithms",
            "aws",
            "kubernetes",
            "transfers",
            "pod",
            "job",
            "ledger",
            "grid",
            "backends",
            "manifest",
            "models",
            "datasets",
            "submission",
            "metrics",
            "audit",
            "deploy",
            "reconciler",
        ),
        *("child", "catalog", "planner", "sweep", "merge", "rounds", "report", "api", "ui", "cli"),
    ),
    "localcloud": (
        *(
            "processes",
            "credentials",
            "wire",
            "faults",
            "limits",
            "iam",
            "settings",
            "log_filter",
            "refused_operations",
            "stored_log",
            "log_streams",
        ),
        *("dynamodb", "s3", "sns", "log_keys"),
        *(
            "ecr",
            "lambda_",
            "events",
            "batch",
            "sagemaker",
            "pricing",
            "cloudformation",
            "codebuild",
            "kubernetes",
            "eks",
            "server",
            "command",
        ),
    ),
    "verification": ("model", "checkout", "deployed_grid", "rehearsal", "faults"),
}
"""Packages (and modules of localcloud and verification): each may import those before it when it is loaded, but none
after it."""
WINGS = {"catalog", "datasets", "merge", "planner", "report", "rounds", "sweep", "ui"}
"""Packages of traingrid for one feature each. Only the entrances import them, and a wing imports no other wing."""
ENTRANCES = {"api", "cli"}
BETWEEN_WINGS = {("planner", "catalog"), ("report", "rounds"), ("ui", "catalog"), ("ui", "rounds"), ("ui", "sweep")}
TRAINING_PACKAGES = {
    "contract": {"contract", "outside_json"},
    "metric_history": {"contract", "metric_history", "outside_json"},
    "launcher": {
        "contract",
        "launcher",
        "metric_history",
        "outside_json",
        "recipe.config",
        "recipe.stall_limit",
        "unpacking",
    },
    "ranks": {
        "contract",
        "launcher",
        "merge.options",
        "merge.parts",
        "ranks",
        "recipe.config",
        "trainer.checkpoints.background",
    },
    "merge": {"contract", "merge", "outside_json", "recipe", "trainer", "unpacking", "weights_file"},
    "recipe": {"contract", "outside_json", "recipe"},
    "torch_trainer": {
        *("contract", "recipe", "script_api", "torch_trainer", "trainer.data.channels"),
        *("trainer.data.image_folder", "trainer.data.shards", "trainer.demux.framing"),
    },
    "trainer.demux": {"trainer.demux"},
    "trainer.checkpoints": {"outside_json", "recipe", "trainer.checkpoints"},
    "trainer.reporting": {"contract", "recipe", "trainer.checkpoints.files", "trainer.reporting"},
    "trainer.data": {"contract", "outside_json", "recipe", "trainer.cluster", "trainer.data", "trainer.demux"},
    "script_api": {
        *("contract", "script_api", "trainer.checkpoints.files", "trainer.data", "trainer.demux"),
        *("trainer.checkpoints.background", "trainer.reporting.event_upload", "unpacking", "weights_file"),
    },
}
"""The modules and packages of training_container that each of its packages may import when it is loaded."""
WITHOUT_TENSORFLOW = (
    "__main__",
    "contract",
    "metric_history",
    "launcher",
    "merge.evaluation",
    "merge.options",
    "merge.parts",
    "merge.reports",
    "outside_json",
    "ranks",
    "recipe",
    "script_api",
    "weights_file",
)
"""They run before a rank needs TensorFlow, whose import takes seconds."""
WITH_NUMPY_ONLY = (
    "merge.outer_step",
    "merge.script_weights",
    "merge.velocity",
    "script_api.round_weights",
    "weights_file",
)
"""They run in images without TensorFlow. A script imports that of its API by its name, and the others only there."""
EXCEPTIONS = {  # the commands that start them
    ("traingrid/cli/local.py", "localcloud"),
    ("traingrid/cli/local.py", "verification"),
    ("traingrid/cli/rehearse.py", "verification"),
}
MEANINGLESS_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "constants", "misc"}


def files() -> list[Path]:
    return [
        path for part in PRODUCT for path in ([ROOT / part] if part.endswith(".py") else (ROOT / part).rglob("*.py"))
    ]


Imports = list[ast.Import | ast.ImportFrom]


def only_imports(nodes: Iterable[ast.AST]) -> Imports:
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


@cache
def imports_of(path: Path) -> tuple[Imports, Imports]:
    """Return all imports of a module, and those at its top level."""
    tree = ast.parse(path.read_text())
    return only_imports(ast.walk(tree)), only_imports(tree.body)


def imported(path: Path) -> set[str]:
    found = set()
    for node in imports_of(path)[0]:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("part", PRODUCT)
def test_imports_follow_the_direction_of_folders(part: str) -> None:
    wrong = []
    for path in files():
        relative = path.relative_to(ROOT).as_posix()
        if relative.partition("/")[0] == part:
            wrong += [(relative, name) for name in imported(path) & FORBIDDEN[part]]
    assert set(wrong) <= EXCEPTIONS


def loaded(path: Path, top: str) -> set[str]:
    """Return the parts of a top-level package that a module imports when it is loaded."""
    return parts_in(imports_of(path)[1], top)


def parts_in(imports: Imports, top: str) -> set[str]:
    found = set()
    for node in imports:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == top:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {name.split(".")[1] for name in names if name and "." in name}
    return found


@pytest.mark.parametrize(("top", "part"), [(top, part) for top, parts in PARTS.items() for part in parts])
def test_parts_import_only_those_below_them(top: str, part: str) -> None:
    above = set(PARTS[top][PARTS[top].index(part) + 1 :])
    modules = [*(ROOT / top / part).rglob("*.py"), *(ROOT / top).glob(f"{part}.py")]
    assert [(path.name, wrong) for path in modules for wrong in loaded(path, top) & above] == []


@pytest.mark.parametrize("part", sorted({*PARTS["traingrid"]} - ENTRANCES))
def test_only_an_entrance_imports_a_wing(part: str) -> None:
    """No package of the center does, not even in a function or for a type."""
    wings = {
        (part, name)
        for path in (ROOT / "traingrid" / part).rglob("*.py")
        for name in parts_in(imports_of(path)[0], "traingrid") & WINGS - {part}
    }
    assert wings <= BETWEEN_WINGS


@pytest.mark.parametrize("top", PARTS)
def test_every_part_has_a_place_in_the_direction(top: str) -> None:
    parts = {path.parent.name for path in (ROOT / top).glob("*/__init__.py")}
    if top != "traingrid":  # its modules that all packages import, such as names.py, are below all packages
        parts |= {path.stem for path in (ROOT / top).glob("[!_]*.py")}
    assert parts == set(PARTS[top])


@cache
def training_imports() -> dict[str, set[str]]:
    """Return the modules that each module of training_container imports when it is loaded."""
    root = ROOT / "training_container"
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in root.rglob("*.py")}
    found: dict[str, set[str]] = {module: set() for module in paths}
    for module, path in paths.items():
        for node in imports_of(path)[1]:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif node.module:
                submodules = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in paths else node.module for name in submodules]
            found[module] |= set(names)
    return found


def below(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"training_container.{package}.")


@pytest.mark.parametrize("package", TRAINING_PACKAGES)
def test_a_package_of_the_training_image_imports_only_those_below_it(package: str) -> None:
    imports = {module: names for module, names in training_imports().items() if below(module, package)}
    assert imports
    wrong = [
        (module, name)
        for module, names in imports.items()
        for name in names
        if name.startswith("training_container") and not any(below(name, one) for one in TRAINING_PACKAGES[package])
    ]
    assert wrong == []


def reached(module: str, imports: dict[str, set[str]]) -> set[str]:
    """Return everything that is loaded with a module, without itself."""
    found: set[str] = set()
    left = [module]
    while left:
        for name in imports.get(left.pop(), set()) - found:
            found.add(name)
            left.append(name)
    return found


def test_modules_of_the_training_image_have_no_import_cycles() -> None:
    imports = training_imports()
    assert [module for module in imports if module in reached(module, imports)] == []


@pytest.mark.parametrize("part", [*WITHOUT_TENSORFLOW, *WITH_NUMPY_ONLY])
def test_the_program_of_a_host_loads_no_tensorflow(part: str) -> None:
    imports = training_imports()
    modules = [module for module in imports if below(module, part)]
    assert modules
    heavy = {"tensorflow", "horovod.tensorflow"}
    if part not in WITH_NUMPY_ONLY:
        heavy.add("numpy")
        modules = [module for module in modules if not any(below(module, name) for name in WITH_NUMPY_ONLY)]
    assert {module: found for module in modules if (found := reached(module, imports) & heavy)} == {}


def test_no_file_has_a_meaningless_name() -> None:
    assert [path for path in files() if path.stem in MEANINGLESS_NAMES] == []


def test_product_code_does_not_mention_localcloud() -> None:
    """Product code has no branches for the local AWS, so no product file mentions it."""
    mentions = [
        path.relative_to(ROOT).as_posix()
        for path in files()
        if path.is_relative_to(ROOT)
        and "localcloud" in path.read_text()
        and not {"localcloud", "verification", "conformance"} & set(path.relative_to(ROOT).parts)
    ]
    allowed = {"traingrid/cli/local.py", "traingrid/cli/installed.py"}
    assert set(mentions) <= allowed


def test_no_test_replaces_the_time_of_other_threads() -> None:
    of_all_threads = re.compile(r"""setattr\(time, |setattr\(["'][\w.]+\.time\.""")
    files = [file for file in (ROOT / "tests").rglob("*.py") if of_all_threads.search(file.read_text())]
    assert files == [], "use tests/support/module_time.py"


def test_programs_of_tests_start_with_an_interpreter_whose_path_may_have_blanks() -> None:
    """`#!` and the path of this Python fail in a checkout with a blank: use tests.support.python_programs."""
    first_line = "#!" + "{"
    found = [path for path in (ROOT / "tests").rglob("*.py") if first_line in path.read_text()]
    assert found == []
