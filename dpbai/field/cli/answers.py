"""The answers of commands: text and a table, printed, or written as CSV or JSON."""

from __future__ import annotations

import csv
import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO

from dpbai.field.cli.sheets import plural, quoted

Columns = Sequence[str]
Rows = Sequence[Sequence[object]]
"""The rows of a table; None and NaN are blank in it."""

_MOST_ROWS = 30
_LINE_WIDTH = 80


@dataclass(frozen=True)
class Answer:
    """The answer of a command: paragraphs above and below a table, and a function for a figure.

    As JSON it consists of the `facts` and, under the key `name`, the rows of the table. A table
    that is not `shown` is for --output and --figure only. The columns are by default those that the
    command declares. If searches have `failed`, the command ends with an error and a `remedy`.
    """

    rows: Rows | None = None
    above: Sequence[str | None] = ()
    below: Sequence[str | None] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    name: str = "arms"
    draw: Callable[[], Any] | None = None
    shown: bool = True
    columns: Columns = ()
    failed: Sequence[str] = ()
    remedy: str = ""

    def show(self, columns: Columns, *, as_json: bool) -> None:
        """Print the answer."""
        if as_json and self.shown:
            show_json({**self.facts, self.name: records(columns, self.rows or [])})
        elif not as_json:
            say(*self.above)
            if self.rows is not None and self.shown:
                show(columns, self.rows)
            say(*self.below)


def write(columns: Columns, rows: Rows, opened: TextIO) -> None:
    """Write a table as CSV, each number in full."""
    cells = [columns, *([_cell(value, repr) for value in row] for row in rows)]
    # Before 3.13, Python does not quote a cell with a carriage return.
    unusual = any("\r" in cell for row in cells for cell in row)
    quoting: Literal[0, 1] = csv.QUOTE_ALL if unusual else csv.QUOTE_MINIMAL
    csv.writer(opened, lineterminator="\n", quoting=quoting).writerows(cells)


def show(columns: Columns, rows: Rows) -> None:
    """Print the first rows of a table, aligned, with four significant digits."""
    lines = [columns, *(list(map(_shown, row)) for row in rows[:_MOST_ROWS])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print(" ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    if len(rows) > _MOST_ROWS:
        more = plural(len(rows) - _MOST_ROWS, "more row")
        print(f"... and {more}: --output FILE writes all rows")


def say(*texts: str | None) -> None:
    """Print paragraphs in 80 columns; leave texts of several lines as they are, and skip None."""
    for text in (text for text in texts if text is not None):
        hang = "  " if text.startswith("Note: ") else ""
        wrapped = textwrap.fill(text, _LINE_WIDTH, subsequent_indent=hang, break_on_hyphens=False)
        print(text if "\n" in text else wrapped)


def records(columns: Columns, rows: Rows) -> list[dict[str, Any]]:
    """Return the rows of a table for JSON."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def show_json(value: Any) -> None:
    """Print and flush one line of JSON; infinity becomes "inf" and NaN null."""
    print(json.dumps(_finite(value), allow_nan=False), flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _cell(value: object, number: Callable[[float], str]) -> str:
    """Return the text of a cell; `number` formats floating-point numbers."""
    if value is None or value != value:
        return ""
    return number(float(value)) if isinstance(value, float) else str(value)


def _shown(value: object) -> str:
    return quoted(value) if isinstance(value, str) else _cell(value, "{:.4g}".format)
