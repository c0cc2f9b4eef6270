"""Mutants: every kind of change is drawn, code without behavior is not, and the same seed draws the same changes."""

import ast
from pathlib import Path

import pytest

from bench.mutants import draw, mutants_of
from bench.reaching_tests import ReachingTests

ROOT = Path(__file__).resolve().parents[3]


def changes(folder: Path, code: str) -> list[str]:
    file = folder / "module.py"
    file.write_text(code)
    found = mutants_of(folder, file)
    for mutant in found:
        assert ast.dump(ast.parse(mutant.apply(file.read_bytes()))) != ast.dump(ast.parse(code))
    return [mutant.change for mutant in found]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a = b and c", ["b and c -> b or c", "b and c -> c", "b and c -> b"]),
        ("a = b < c", ["b < c -> b <= c"]),
        ("a = b - c", ["b - c -> b + c"]),
        ("a = not b", ["not b -> b"]),
        ("a = b if c else d", ["b if c else d -> b if not c else d"]),
        ("a = [True, 7]", ["True -> False", "7 -> 8"]),
        ("if a:\n    b = c", ["a -> not (a)"]),
        ("a |= b", ["a |= b -> pass"]),
        ("a(b)", ["a(b) -> pass"]),
        ("a.b = c", ["a.b = c -> pass"]),
        ("raise A(1 + 2)", ["raise A(1 + 2) -> pass"]),
        ("def a():\n    return b", ["return b -> return None"]),
        ("def a() -> bool:\n    return b", ["return b -> return not (b)"]),
        ("@a(b=c, help=d)\ndef e(): ...", ["a(b=c, help=d) -> a(help=d)"]),
    ],
)
def test_each_kind_of_code_is_changed(tmp_path: Path, code: str, expected: list[str]) -> None:
    assert changes(tmp_path, code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "logger.info(a, b + 1)",
        "a = f'{b + 1}'",
        "a: b | c = d",
        "def a(b: c | d = e) -> f | g: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "if TYPE_CHECKING:\n    a(b)",
        "a = 'b' + c",
    ],
)
def test_logs_texts_and_types_are_not_changed(tmp_path: Path, code: str) -> None:
    assert changes(tmp_path, code) == []


def test_only_the_changed_code_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("a = 'é' * 2  # twice\nif a:\n    pass\n")
    found = mutants_of(tmp_path, tmp_path / "module.py")
    source = (tmp_path / "module.py").read_bytes()
    assert [mutant.apply(source).decode() for mutant in found if mutant.line == 2] == [
        "a = 'é' * 2  # twice\nif (not (a)):\n    pass\n"
    ]


def test_packages_are_drawn_in_turn_and_a_seed_decides_the_order(tmp_path: Path) -> None:
    packages = {}
    for name, lines in (("large", 50), ("small", 1)):
        packages[name] = [tmp_path / f"{name}.py"]
        packages[name][0].write_text("".join(f"a({line})\n" for line in range(lines)))
    drawn = draw(tmp_path, packages, seed=7, count=6)
    assert [mutant.file for mutant in drawn] == ["large.py", "small.py"] * 2 + ["large.py"] * 2
    assert drawn == draw(tmp_path, packages, seed=7, count=6) != draw(tmp_path, packages, seed=8, count=6)


def test_the_nearest_unit_tests_run_first_and_integration_tests_last() -> None:
    first, others, integration = ReachingTests(ROOT).of("traingrid/audit/prune.py")
    assert "tests/unit/audit/test_prune.py" in first
    assert all(name.startswith("tests/unit/") for name in first + others)
    assert "tests/integration/control_plane/test_prune.py" in integration
