"""Table of docs/manifest-fields.md: writes it from the table of manifest fields, and leaves the rest of the page.

python -m docs_site.manifest_page
"""

import re
from pathlib import Path

from traingrid.manifest.field import Field
from traingrid.manifest.fields import FIELDS

PAGE = Path(__file__).resolve().parent.parent / "docs/manifest-fields.md"
_HEAD = "| field | CSV | meaning |\n|---|---|---|\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")


def page(text: str) -> str:
    """Return the text of the page with the present table."""
    rows = "".join(f"| `{field.name}` |{_column(field)}| {field.meaning} |\n" for field in FIELDS.values())
    return _TABLE.sub(lambda _: _HEAD + rows, text)


def _column(field: Field) -> str:
    return f" `{field.prefix}{field.entry}` " if field.prefix else " "


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
