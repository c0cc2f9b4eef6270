"""Columns: the fields and entries of mappings that the columns of CSV with a header hold."""

from __future__ import annotations

import difflib
import re
from collections import Counter

from traingrid.manifest.characters import character_name, invisible_in_name, visible
from traingrid.manifest.entry_names import STEP, mixed_up
from traingrid.manifest.errors import LineError, ManifestError, file_error
from traingrid.manifest.fields import FIELDS, MAPPINGS
from traingrid.text import shown

MAX_COLUMNS = 500
"""The maximum number of columns: SageMaker's maximum number of entries of every mapping, and every other field."""

OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
INDEX_STEP = "Name the column, or remove it. In pandas, write the table with to_csv(index=False)."
"""The next step for a column that is probably the index of a table of pandas."""
_FROM_THE_DEPLOYMENT = re.compile(
    r"(execution)?role(arn)?|subnets?(ids?)?|securitygroups?(ids?)?|vpc(id|config)?|(output|volume)?kmskey(id|arn)?"
    r"|account(id)?|credentials|profile|aws(accesskeyid|secretaccesskey|sessiontoken)|(access|secret)key"
)


def is_header(cells: list[str]) -> bool:
    """Return True if the cells of a file's first line are column names."""
    names = {cell.lower() for cell in cells}
    return bool(names & {"region", "s3_uri"} or any(name.startswith(tuple(MAPPINGS)) for name in names))


def are_columns(cells: list[str]) -> bool:
    """Return True if all of a line's cells are names of columns."""
    return is_header(cells) and all(cell in FIELDS or cell.startswith(tuple(MAPPINGS)) for cell in cells)


def columns_of(number: int, cells: list[str]) -> tuple[list[tuple[str, str] | None], list[LineError]]:
    """Return the field and entry of every column (None for an invalid or unnamed one), and the errors of the columns.

    Raises:
        ManifestError: A column is missing or repeated, so that no row can be read.
    """
    if len(cells) > MAX_COLUMNS:
        raise file_error(f"the header has {len(cells):,} columns", f"Write at most {MAX_COLUMNS}.")
    cells = [_column_name(cell) for cell in cells]
    (column, times), *_ = Counter(filter(None, cells)).most_common(1)
    if times > 1:
        raise file_error(f"the header has the column {shown(column)} {times} times", "Keep one of them.")
    columns: list[tuple[str, str] | None] = []
    errors: list[LineError] = []
    for position, cell in enumerate(cells, start=1):
        prefix = next((prefix for prefix in MAPPINGS if cell.startswith(prefix)), "")
        error = _unclear_name(number, position, cell)
        if not error and prefix and cell != prefix:
            columns.append((MAPPINGS[prefix], cell[len(prefix) :]))
        elif not error and cell in FIELDS and cell not in MAPPINGS.values():
            columns.append((cell, ""))
        else:
            columns.append(None)
            if cell:
                errors.append(error or unknown_field(number, cell, csv_form=True))
    hyperparameters = [column[1] for column in columns if column and column[0] == "hyperparameters"]
    for name, reason in mixed_up(hyperparameters):
        position = 1 + columns.index(("hyperparameters", name))
        text = f"the hyperparameter of column {position} {reason}"
        errors.append(LineError(line=number, field="field", value=shown(f"hp.{name}"), reason=text, next_step=STEP))
    if "region" not in cells:
        if any(visible(cell).strip().lower() == "region" for cell in cells):
            raise ManifestError(errors)
        raise file_error("the header has no column region", "Add it: every job requires a Region.")
    return columns, errors


def _column_name(cell: str) -> str:
    """Return the name of a column without blanks after its prefix; a field's name in lower case."""
    prefix, dot, entry = cell.partition(".")
    if f"{prefix}{dot}" in MAPPINGS:
        return f"{prefix}{dot}{entry.strip()}"
    return cell.lower() if cell.lower() in FIELDS else cell


def _lower_case_column(name: str) -> str:
    """Return a column whose prefix is written in another case with the right prefix; "" for any other name."""
    prefix, dot, entry = name.partition(".")
    mapping = f"{prefix.strip().lower()}{dot}"
    return f"{mapping}{entry.strip()}" if entry.strip() and mapping in MAPPINGS else ""


def _unclear_name(number: int, position: int, cell: str) -> LineError | None:
    """Return the error of a column whose name has invisible characters, or another separator than commas."""
    name = visible(cell).strip()
    if not is_header([name]) and name.lower() not in FIELDS:
        return None
    if separator := next((sign for sign in OTHER_SEPARATORS if sign in cell), ""):
        reason = f"the name of column {position} has {character_name(separator)}, and commas separate the columns"
        next_step = "Save the file with commas between cells, or give the entry another name."
    elif hidden := invisible_in_name(cell):
        reason = f"the name of column {position} has {hidden}"
        next_step = "Type the name again."
    else:
        return None
    return LineError(line=number, field="field", value=shown(cell), reason=reason, next_step=next_step)


def unknown_field(number: int, name: str, *, csv_form: bool) -> LineError:
    """Return the error for an unknown field or column, with the most similar known name."""
    prefix = FIELDS[name].prefix if name in FIELDS else ""
    if _FROM_THE_DEPLOYMENT.fullmatch(re.sub(r"[_.\- ]", "", name.lower())):
        reason = "the deployment sets this, and a manifest cannot override it"
        next_step = "Remove it; `cdk deploy` creates the roles, networks and keys."
    elif csv_form and (column := _lower_case_column(name)):
        reason, next_step = "unknown field", f"Did you mean {column}?"
    elif csv_form and name.startswith("Unnamed:"):  # as pandas reads a column without a name
        reason, next_step = "unknown field", INDEX_STEP
    elif prefix and csv_form:
        reason = "a column holds only one entry of it"
        next_step = f"Write a column {prefix}NAME for each entry."
    else:
        similar_name = similar_field(name, csv_form=csv_form)
        reason = "unknown field"
        names = ", ".join(_field_names(csv_form=csv_form))
        next_step = f"Did you mean {similar_name}?" if similar_name else f"The fields are {names}."
    return LineError(line=number, field="field", value=shown(name), reason=reason, next_step=next_step)


def similar_field(name: str, *, csv_form: bool) -> str:
    """Return the field, or the prefix of columns, that an unknown name is probably meant to be; empty if none is."""
    first, dot, _ = name.lower()[:40].partition(".")  # `hp.` of `hp.rate` is a prefix of columns
    return next(iter(difflib.get_close_matches(f"{first}{dot}", _field_names(csv_form=csv_form), n=1)), "")


def _field_names(*, csv_form: bool) -> list[str]:
    names = [name for name in FIELDS if not csv_form or name not in MAPPINGS.values()]
    return [*names, *MAPPINGS] if csv_form else names
