"""Coverage: the lines and branches of files are added up by package."""

from typing import Any

from bench.coverage import packages


def test_files_count_for_the_package_that_contains_them() -> None:
    def file(lines: int, covered: int) -> dict[str, Any]:
        return {"summary": {"num_statements": lines, "covered_lines": covered, "percent_covered": 50.0}}

    files = {"app.py": file(4, 2), "a/b/c.py": file(10, 5), "a/b/d/e.py": file(6, 6), "a/f.py": file(3, 0)}
    found = packages({"files": files})
    assert {name: (n["num_statements"], n["covered_lines"]) for name, n in found.items()} == {
        "a": (3, 0),
        "a/b": (16, 11),
        "app.py": (4, 2),
    }
