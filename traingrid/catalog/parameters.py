"""Parameters of queries: finds `:name` in SQL, and writes it in the form of a database's driver."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

# Literals (https://www.postgresql.org/docs/15/sql-syntax-lexical.html; the last kind exists in PostgreSQL only), quoted
# names, comments and casts come first, so that a colon in them is not a parameter. The colon of a slice such as [1:n]
# follows a word.
_TOKEN = re.compile(
    r"""
    (?P<other>
        [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
      | --[^\n]* | /\*.*?\*/
      | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
      | ::
    )
    | (?<![\w\]]):(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")


def names_in(sql: str) -> set[str]:
    """Return the names of the parameters of a query."""
    return {match["name"] for match in _TOKEN.finditer(sql) if match["name"]}


def for_psycopg(sql: str) -> str:
    """Return a query with its parameters as `%(name)s`, and every other per cent sign doubled, as psycopg expects."""
    pieces, end = [], 0
    for match in _TOKEN.finditer(sql):
        pieces.append(sql[end : match.start()].replace("%", "%%"))
        pieces.append(f"%({match['name']})s" if match["name"] else match[0].replace("%", "%%"))
        end = match.end()
    return "".join([*pieces, sql[end:].replace("%", "%%")])


def for_sqlite(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return parameters with times in the form in which SQLite's tables hold them, because SQLite compares text."""
    return {name: _stored_time(value) if _TIME.fullmatch(value) else value for name, value in parameters.items()}


def _stored_time(text: str) -> str:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:  # such as 2026-13-45T00:00
        return text
    time = time.astimezone(UTC) if time.tzinfo else time
    return time.strftime("%Y-%m-%d %H:%M:%S.%f")
