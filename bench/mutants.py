"""Mutants: single changes of the code that a test should notice, each at a place drawn at random."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

_PAIRS: tuple[tuple[Any, Any], ...] = (
    *((ast.And, ast.Or), (ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.FloorDiv, ast.Mod), (ast.BitOr, ast.BitAnd)),
)
_SWAPPED: dict[Any, Any] = {old: new for pair in _PAIRS for old, new in (pair, pair[::-1])}
_UNTESTED = ("annotation", "returns", "exc")
"""Fields without behavior: types, and the text of an error."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change.

    Attributes:
        file: The file, relative to the root.
        line: The first line of the changed code.
        scope: The classes and the function that contain it, with dots between them.
        change: The code before and after.
        start: The index of the first byte that is replaced.
        end: The index after the last byte that is replaced.
    """

    file: str
    line: int
    scope: str
    change: str
    start: int
    end: int
    code: str

    @property
    def key(self) -> str:
        """An identifier that other changes of the file rarely affect."""
        return f"{self.file} {self.scope}: {self.change}"

    def apply(self, source: bytes) -> bytes:
        """Return the changed source of the file."""
        return source[: self.start] + self.code.encode() + source[self.end :]


def draw(root: Path, packages: Mapping[str, list[Path]], seed: int, count: int) -> list[Mutant]:
    """Draw mutants from all packages in turn, so that small packages are drawn as well.

    Args:
        root: The folder that names of files are relative to.
        packages: The files of each package.
        seed: Mutants of the same code are the same for the same seed.
    """
    shuffled = {}
    for package, files in packages.items():
        mutants = [mutant for file in sorted(files) for mutant in mutants_of(root, file)]
        Random(f"{seed} {package}").shuffle(mutants)  # noqa: S311 - not for cryptography
        shuffled[package] = mutants
    rounds = range(max(map(len, shuffled.values()), default=0))
    return [mutants[n] for n in rounds for mutants in shuffled.values() if n < len(mutants)][:count]


def mutants_of(root: Path, file: Path) -> list[Mutant]:
    """Return all mutants of a file whose keys are different, in the order of the file."""
    source = file.read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    mutants: dict[str, Mutant] = {}
    for scope, node, code in _changes(ast.parse(source), "", None):
        mutant = Mutant(
            file=file.relative_to(root).as_posix(),
            line=node.lineno,
            scope=scope or "module",
            change=f"{ast.unparse(node)} -> {code}",
            start=lines[node.lineno - 1] + node.col_offset,
            end=lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0),
            code=f"({code})" if isinstance(node, ast.expr) else code,
        )
        mutants.setdefault(mutant.key, mutant)
    return list(mutants.values())


_Changes = Iterator[tuple[str, ast.expr | ast.stmt, str]]


def _changes(node: ast.AST, scope: str, function: ast.FunctionDef | None) -> _Changes:
    """Yield the scope, the expression or statement, and its new code, of all changes of a tree."""
    if _is_untested(node):
        return
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        scope = f"{scope}.{node.name}".lstrip(".")
        function = node if isinstance(node, ast.FunctionDef) else function
    if isinstance(node, ast.stmt):
        yield from ((scope, changed, code) for changed, code in _of_statement(node, function))
    elif isinstance(node, ast.expr):
        yield from ((scope, node, ast.unparse(new)) for new in _of_expression(node))
    for name, value in ast.iter_fields(node):
        for child in [] if name in _UNTESTED else value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes(child, scope, function)


def _is_untested(node: ast.AST) -> bool:
    """Return True for log messages, other texts, decorators of dataclasses, and imports for types."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).startswith(("logger.", "dataclass", "cast", "TypeVar"))
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.JoinedStr)


def _of_statement(node: ast.stmt, function: ast.FunctionDef | None) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Constant):
            yield test, f"not ({ast.unparse(test)})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            is_bool = function is not None and function.returns and ast.unparse(function.returns) == "bool"
            yield node, f"return not ({ast.unparse(value)})" if is_bool else "return None"
        case ast.Expr(value=ast.Call() as call) if not _is_untested(call):
            yield node, "pass"
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Delete():
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.FunctionDef(decorator_list=decorators):
            for call in (node for node in decorators if isinstance(node, ast.Call) and not _is_untested(node)):
                for dropped in (keyword for keyword in call.keywords if keyword.arg != "help"):
                    keywords = [keyword for keyword in call.keywords if keyword is not dropped]
                    yield call, ast.unparse(ast.Call(func=call.func, args=call.args, keywords=keywords))


def _of_expression(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(op=_SWAPPED[type(op)](), values=values)
            for value in values:
                yield ast.BoolOp(op=op, values=[other for other in values if other is not value])
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in _SWAPPED:
            yield ast.Compare(left=left, ops=[_SWAPPED[type(op)]()], comparators=right)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SWAPPED and not _has_text(left, right):
            yield ast.BinOp(left=left, op=_SWAPPED[type(op)](), right=right)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test=ast.UnaryOp(op=ast.Not(), operand=test), body=body, orelse=orelse)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(value=not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value=value + 1)


def _has_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )
