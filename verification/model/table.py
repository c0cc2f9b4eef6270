"""In-memory DynamoDB table with the operations that traingrid uses: conditional writes are atomic."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from traingrid.aws.dynamodb import marshalled, plain
from traingrid.late_request import raise_if_late
from traingrid.names import LEDGER_STATES, LEDGER_SUBMISSIONS

Item = dict[str, Any]
Call = Callable[[str, str, Callable[[], Any]], Any]
"""Executes a call: service, operation, effect."""

_SORT_KEYS = {LEDGER_STATES: "item", LEDGER_SUBMISSIONS: "claimed_at"}
"""The sort keys of the indexes, which have only the items with them."""
_TOKEN = re.compile(r"\s*([(),]|=|[#:]?\w+)")


class ModelTable:
    """Replacement for `traingrid.aws.dynamodb.Table`.

    Attributes:
        items: Every item, by submission and item.
        is_conditional: False to ignore conditions, so that every write happens.
    """

    is_conditional = True

    def __init__(self, call: Call, on_write: Callable[[Item, Item], None]) -> None:
        self._call, self._on_write = call, on_write
        self.items: dict[tuple[str, str], Item] = {}

    def get(self, submission: str, item: str) -> Item | None:
        """Return a copy of an item."""
        stored: Item | None = self._call(
            "dynamodb", "GetItem", lambda: copy.deepcopy(self.items.get((submission, item)))
        )
        return stored

    def put(self, item: Item) -> None:
        """Write an item, replacing any existing one."""
        self._call("dynamodb", "PutItem", lambda: self._write(item))

    def put_new(self, item: Item) -> bool:
        """Write an item unless its key exists; return True if it was written."""
        key = item["submission"], item["item"]
        return bool(self._call("dynamodb", "PutItem", lambda: self._is_new(key) and self._write(item)))

    def query(self, submission: str, condition: str, value: str) -> Iterator[Item]:
        """Yield a submission's items whose sort key is at least, or begins with, a value."""
        begins = condition.startswith("begins_with")

        def found() -> list[Item]:
            keys = sorted(key for key in self.items if key[0] == submission)
            selected = [key for key in keys if (key[1].startswith(value) if begins else key[1] >= value)]
            return [copy.deepcopy(self.items[key]) for key in selected]

        yield from self._call("dynamodb", "Query", found)

    def query_index(self, index: str, condition: str, values: Item) -> Iterator[Item]:
        """Yield the items of an index that meet a key condition; here it is never late, and has all attributes."""
        holds, sort_key = Condition(condition, values).holds, _SORT_KEYS[index]

        def found() -> list[Item]:
            entries = [item for item in self.items.values() if isinstance(item.get(sort_key), str) and holds(item)]
            return copy.deepcopy(sorted(entries, key=lambda item: str(item[sort_key])))

        yield from self._call("dynamodb", "Query", found)

    def scan(self, item: str) -> Iterator[Item]:
        """Yield the items with one sort key."""
        yield from (stored for stored in self.everything() if stored["item"] == item)

    def scan_page(self, condition: str, values: Item, after: Item | None) -> tuple[list[tuple[str, str]], Item | None]:
        """Return the keys of all items that meet a condition, in one page."""
        if after:
            raise ValueError("the table has one page")
        holds = Condition(condition, values).holds
        keys = self._call("dynamodb", "Scan", lambda: [key for key, item in self.items.items() if holds(item)])
        return keys, None

    def everything(self) -> Iterator[Item]:
        """Yield copies of all items."""
        yield from self._call("dynamodb", "Scan", lambda: copy.deepcopy(list(self.items.values())))

    def update(  # noqa: PLR0913 - as Table's
        self,
        key: tuple[str, str],
        changes: Item,
        condition: str,
        values: Item,
        *,
        appended: Mapping[str, list[Any]] | None = None,
        removed: Sequence[str] = (),
        added: Mapping[str, str] | None = None,
        discarded: Mapping[str, str] | None = None,
    ) -> bool:
        """Change an item if a condition holds; return True if it was changed."""

        def change() -> bool:
            item = self.items.get(key, {})
            if self.is_conditional and not Condition(condition, values).holds(item):
                return False
            new = {**dict(zip(("submission", "item"), key, strict=True)), **item, **changes}
            new |= {name: [*item.get(name, []), *entries] for name, entries in (appended or {}).items()}
            new |= {name: {*item.get(name, ()), text} for name, text in (added or {}).items()}
            new |= {name: {*item.get(name, ())} - {text} for name, text in (discarded or {}).items()}
            return self._write({name: value for name, value in new.items() if name not in removed and value != set()})

        raise_if_late()
        return bool(self._call("dynamodb", "UpdateItem", change))

    def delete(self, key: tuple[str, str], condition: str, values: Item) -> bool:
        """Delete an item if a condition holds; return True if it was deleted."""

        def remove() -> bool:
            if self.is_conditional and not Condition(condition, values).holds(self.items.get(key, {})):
                return False
            return self.items.pop(key, None) is not None

        return bool(self._call("dynamodb", "DeleteItem", remove))

    def _is_new(self, key: tuple[str, str]) -> bool:
        return not self.is_conditional or key not in self.items

    def _write(self, item: Item) -> bool:
        key = item["submission"], item["item"]
        stored = plain(marshalled(item))  # without the values that DynamoDB does not store
        self._on_write(self.items.get(key, {}), stored)
        self.items[key] = stored
        return True


class Condition:
    """A DynamoDB condition expression, limited to the syntax that traingrid uses.

    Supports equality, IN, AND, OR, NOT, parentheses, attribute_exists, attribute_not_exists and begins_with. Names are
    words, optionally with a leading #; placeholders of values begin with a colon.
    """

    def __init__(self, text: str, values: Mapping[str, Any]) -> None:
        self._words = _TOKEN.findall(text)
        self._values = values
        self._item: Mapping[str, Any] = {}

    def holds(self, item: Mapping[str, Any]) -> bool:
        """Return True if the condition holds for an item; {} represents a missing item."""
        self._item, self._rest = item, [*self._words]
        holds = self._any()
        if self._rest:
            raise ValueError(f"unexpected words at the end of the condition: {self._rest}")
        return holds

    def _any(self) -> bool:
        holds = self._all()
        while self._next("OR"):
            holds = self._all() or holds
        return holds

    def _all(self) -> bool:
        holds = self._one()
        while self._next("AND"):
            holds = self._one() and holds
        return holds

    def _one(self) -> bool:
        if self._next("NOT"):
            return not self._one()
        if self._next("("):
            holds = self._any()
            self._take(")")
            return holds
        word = self._rest.pop(0)
        if word in ("attribute_exists", "attribute_not_exists"):
            self._take("(")
            holds = bool((self._rest.pop(0).lstrip("#") in self._item) == (word == "attribute_exists"))
            self._take(")")
            return holds
        if word == "begins_with":
            self._take("(")
            text = str(self._item.get(self._rest.pop(0).lstrip("#"), ""))
            self._take(",")
            holds = text.startswith(self._values[self._rest.pop(0)])
            self._take(")")
            return holds
        # A missing attribute equals no value.
        value = self._item.get(word.lstrip("#"), self)
        if self._next("="):
            return bool(value == self._values[self._rest.pop(0)])
        self._take("IN")
        self._take("(")
        values = [self._values[self._rest.pop(0)]]
        while self._next(","):
            values.append(self._values[self._rest.pop(0)])
        self._take(")")
        return bool(value in values)

    def _next(self, word: str) -> bool:
        if self._rest and self._rest[0] == word:
            self._rest.pop(0)
            return True
        return False

    def _take(self, word: str) -> None:
        if not self._next(word):
            raise ValueError(f"expected {word} in the condition before {self._rest}")
