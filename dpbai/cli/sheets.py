"""Tables as people have them: any separator, any Unicode encoding, columns found by their names.

A sheet of rewards is private: what is wrong with it is told by the line, and no cell of it is
quoted, nor its first line unless that looks like names.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import re
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import accumulate

from dpbai import _check
from dpbai.cli.arguments import STANDARD_INPUT

SEPARATORS = ",;\t|"
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how .xlsx, .ods and .xls begin
_WIDTH = 72  # characters of a list
_LONGEST = 30  # characters of a name in a list
_TRUTH = {"true": 1.0, "false": 0.0}
_MISSING = {"", "na", "n/a", "null", "none"}


@dataclass(frozen=True)
class Sheet:
    """The cells of a file: the names of the columns, then each line's number and cells."""

    path: str
    header: list[str]
    rows: list[tuple[int, list[str]]]
    comma: bool  # whether numbers may have a decimal one, as they do where semicolons separate
    private: bool  # whether no cell may be quoted

    @classmethod
    def read(cls, path: str, *, private: bool = False) -> Sheet:
        """Read a file of text, or standard input."""
        text = unicodedata.normalize("NFC", _text(path))
        first = next((line for line in text.splitlines() if line.strip()), "")
        separator = max(SEPARATORS, key=re.sub('"[^"]*"', "", first).count)
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        try:
            every = [(lines.line_num, [cell.strip() for cell in cells]) for cells in lines]
        except csv.Error as error:
            raise ValueError(f"{path}: no CSV file: {error}") from None
        rows = [(line, cells) for line, cells in every if any(cells)]
        if len(rows) < 2:
            raise ValueError(f"{path}: there must be a first line of names, and a line of values")
        sheet = cls(path, rows[0][1], rows[1:], separator == ";", private)
        names = list(filter(None, sheet.header))
        if len(set(names)) < len(names):
            raise ValueError(f"{path}: the columns must have distinct names")
        for line, cells in sheet.rows:
            if len(cells) != len(sheet.header):
                raise sheet.wrong(line, f"there must be {len(sheet.header)} values")
        return sheet

    def wrong(self, line: int, what: str) -> ValueError:
        """Return the error that tells what is wrong in a line."""
        return ValueError(f"{self.path}, line {line}: {what}")

    def column(self, name: str, option: str = "") -> int:
        """Return the place of a column, in upper or lower case; `option` chooses another."""
        folded = [entry.casefold() for entry in self.header]
        wanted = normal(name)
        if wanted in self.header:
            return self.header.index(wanted)
        if folded.count(wanted.casefold()) == 1:
            return folded.index(wanted.casefold())
        found = "it seems to have no line of names"
        if not self.private or not any(re.match(r"[-+.,\d]|true|false", name) for name in folded):
            found = f"there are: {listed(map(quoted, self.header))}"
        way = f"; name the one that is meant by {option}" if option else ""
        raise ValueError(f"{self.path}: there is no column {wanted}; {found}{way}")

    def labels(self, place: int) -> tuple[str, ...]:
        """Return the cells of a column, which must name a different arm each."""
        found: dict[str, int] = {}
        for line, cells in self.rows:
            label = cells[place]
            if not label:
                raise self.wrong(line, "the arm has no name")
            if label in found:
                raise self.wrong(line, f"arm {label!r} is in line {found[label]} already")
            found[label] = line
        return tuple(found)

    def number(self, line: int, text: str, what: str, way: str = "") -> float:
        """Return a finite number of a line; True and False are 1 and 0."""
        if text.casefold() in _TRUTH:
            return _TRUTH[text.casefold()]
        if text.casefold() in _MISSING:
            column = ", or the column by --features" if way else ""
            text = f"and is missing; the line can be left out{column}"
            raise self.wrong(line, f"{what} must be a number, {text}")
        got = "" if self.private else f", got {text!r}"
        try:
            value = float(text.replace(",", ".") if self.comma and "." not in text else text)
        except ValueError:
            raise self.wrong(line, f"{what} must be a number{got}{way}") from None
        if not math.isfinite(value) or "_" in text:
            raise self.wrong(line, f"{what} must be a finite number{got}")
        return value


def normal(text: str) -> str:
    """Return text with accents in one normal form and no space around it."""
    return unicodedata.normalize("NFC", text).strip()


def nearest(text: str, names: Iterable[str]) -> str:
    """Return a hint at the name that a wrong one is near to, if it is no number; or nothing."""
    folded = {name.casefold(): name for name in names}
    found = get_close_matches(normal(text).casefold(), folded, 1)
    is_number = re.match(r"[-+.,\d]", normal(text))
    return f"; the nearest is {quoted(folded[found[0]])}" if found and not is_number else ""


def quoted(name: object) -> str:
    """Return a name as a list tells it: not too long, in quotes if it would not be seen as one."""
    text = " ".join(str(name).split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(',;"') else text


def listed(entries: Iterable[str], width: int = _WIDTH) -> str:
    """Return a list on one line: what fits, and how many more there are; "nothing" of none."""
    entries = list(entries) or ["nothing"]
    ends = accumulate(len(entry) + 2 for entry in entries)
    kept = max(sum(end <= width for end in ends), 1)
    more = len(entries) - kept
    return ", ".join(entries[:kept]) + (f" and {more} more" if more else "")


def _text(path: str) -> str:
    if path == STANDARD_INPUT:
        return sys.stdin.read()
    data = _check.path(path, "each FILE").read_bytes()
    if data.startswith(_WORKBOOKS):
        raise ValueError(
            f"{path}: this is a workbook of a spreadsheet program: save its sheet there as CSV "
            "(UTF-8), and give that file"
        )
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ValueError(
            f"{path}: no CSV file: it is not text in UTF-8 or UTF-16; save it as CSV (UTF-8)"
        )
    return text
