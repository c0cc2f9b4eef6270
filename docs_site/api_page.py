"""Reference of the Python API: writes docs/api.md from the docstrings of the names in `traingrid.__all__`.

python -m docs_site.api_page
"""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, fill

import griffe

import traingrid

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/api.md"
_FIRST = ("Grid", "Submission", "from_model_trainer")
_WIDTH = 120
_HEAD = """\
# Python API

`pip install .` installs the API together with the command. It uses the AWS credentials and endpoint of the environment,
as the AWS CLI does, and finds the grid by its grid.yaml:

    import traingrid as tg

    grid = tg.Grid.load("grid.yaml")
    submission = grid.submit([
        {"region": "us-east-1", "s3_uri": "s3://bucket/digits", "hp.epochs": 5},
        {"region": "eu-west-1", "s3_uri": "s3://other-bucket/digits", "hp.epochs": 5},
    ])
    for job in submission.wait().jobs:
        print(job.region, job.state, job.metrics.get("validation_top1"))
    curves = submission.metrics()  # a pandas DataFrame, or a list without pandas
    submission.download("models")

The fields of a job are those of a [manifest](manifest-fields.md). The [commands](commands.md) use the same functions. A
[notebook](../examples/notebook) finds the best of four runs, and `from_model_trainer` converts jobs of
the [SageMaker Python SDK](sagemaker-sdk.md).

`make api-page` writes this page from the docstrings. All other modules of traingrid are internal and may change with
every release.
"""


def page() -> str:
    """Return the text of docs/api.md."""
    package = griffe.load("traingrid", search_paths=[ROOT], docstring_parser="google")
    public = [name for name in traingrid.__all__ if not name.startswith("_")]
    found = [*_FIRST, *(name for name in public if name not in _FIRST)]
    described = [package[path.removeprefix("traingrid.")] for path in _paths(found)]
    parts = [_HEAD, *("\n".join(_function(one) if one.is_function else _class(one)) for one in described)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _paths(found: list[str]) -> Iterator[str]:
    for name in found:
        public = getattr(traingrid, name)
        yield f"{public.__module__}.{public.__qualname__}"


def _function(described: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield the lines about a function."""
    assert isinstance(described, griffe.Function)  # noqa: S101 - for the type checker
    yield f"## {described.name}\n"
    yield f"    {_signature(described)}\n"
    yield from _docstring(described)
    yield ""


def _class(described: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield the lines about a class: its docstring, then its methods and properties."""
    yield f"## {described.name}\n"
    yield from _docstring(described)
    for member in described.members.values():
        if member.name.startswith("_") or not member.docstring or member.is_alias:
            continue
        if isinstance(member, griffe.Function) and described.name in _FIRST:
            yield f"### {described.name}.{member.name}\n"
            yield f"    {_signature(member)}\n"
            yield from _docstring(member)
        elif "property" in member.labels:
            yield f"### {described.name}.{member.name}\n"
            yield from _docstring(member)
        elif member.is_attribute:
            yield _item(f"- `{member.name}`: {member.docstring.value}")
    yield ""


def _signature(method: griffe.Function) -> str:
    """Return a method's call with its defaults, without types, which the list of arguments shows."""
    shown = [
        parameter.name + (f"={parameter.default}" if parameter.default is not None else "")
        for parameter in method.parameters
        if parameter.name not in ("self", "cls") and str(parameter.default) != "logger.info"
    ]
    return f"{method.name}({', '.join(shown)})"


def _docstring(described: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield the parts of a docstring as Markdown."""
    for section in described.docstring.parsed if described.docstring else ():
        if section.kind is griffe.DocstringSectionKind.text:
            yield f"{dedent(section.value).strip()}\n"
        elif section.kind is griffe.DocstringSectionKind.returns:
            yield _item(f"Returns: {' '.join(item.description for item in section.value)}", indent="") + "\n"
        elif section.kind is griffe.DocstringSectionKind.raises:
            yield "Raises:\n"
            yield from (_item(f"- `{item.annotation}`: {item.description}") for item in section.value)
            yield ""
        else:  # arguments of a method, or attributes of a class
            yield f"{'Arguments' if section.kind is griffe.DocstringSectionKind.parameters else 'Attributes'}:\n"
            yield from (_item(f"- `{item.name}` ({_type(item)}): {item.description}") for item in section.value)
            yield ""


def _type(item: griffe.DocstringNamedElement) -> str:
    return f"`{item.annotation}`" if item.annotation is not None else "no type"


def _item(text: str, indent: str = "  ") -> str:
    """Return a text wrapped as the other pages are."""
    return fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page())
