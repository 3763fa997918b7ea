"""CSV files with any usual separator and Unicode encoding; columns are found by their names.

A sheet of rewards is private: an error names the line, and quotes neither cells nor the first line,
which may contain rewards.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import accumulate

from dpbai import _check
from dpbai._describe import UNSEEN, visible
from dpbai.field.cli.arguments import STANDARD_INPUT

_SEPARATORS = ",;\t|"
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # the first bytes of .xlsx and .ods, and of .xls
_WIDTH = 72  # characters of a list
_LONGEST = 30  # characters of a name
_TRUTH = {"true": 1.0, "false": 0.0}
_MISSING = {"", "na", "n/a", "#n/a", "null", "none"}
_NO_WORDS = {*_TRUTH, *_MISSING}
_LETTERS = re.compile(r"[^\W\d_eE]")  # except that of an exponent
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+|[-+]?\d+,")
_DECORATED = re.compile(r"\W*\d[\d.,'\u2019\s]*(\W*|\s*[^\W\d_]{1,3})")
"""A number with thousands separators, or with a currency sign, % or unit around it."""
_ONE_LINE = "{} must be one line of visible characters: replace all others with spaces"


@dataclass(frozen=True)
class Sheet:
    """The columns of a file by their names, and the line number of each row."""

    path: str
    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]
    comma: bool  # whether it may be the decimal sign: if semicolons separate the columns
    private: bool  # whether no cell may be quoted

    @classmethod
    def read(cls, path: str, *, private: bool = False) -> Sheet:
        """Read a text file, or standard input; empty columns without a name are left out."""
        name = "standard input" if path == STANDARD_INPUT else path
        text = unicodedata.normalize("NFC", _text(path, name))
        if alone := re.search(r"\r(?!\n)", text) if "\n" in text else None:
            line = text.count("\n", 0, alone.start()) + 1
            raise ValueError(
                f"{name}, line {line}: there is a carriage return without a line feed, but other "
                "lines end with a line feed: replace it with a space or a line feed"
            )
        lines = list(io.StringIO(text, newline=""))  # which may end in \n, \r\n or \r
        first = next((number for number, line in enumerate(lines) if line.strip()), 0)
        head = lines[first] if lines else ""
        separator = max(_SEPARATORS, key=re.sub('"[^"]*"', "", head).count)
        # Spreadsheet programs may write a first line such as "sep=;".
        if stated := re.fullmatch(r'"?sep=(.)"?', head.strip("\r\n "), re.IGNORECASE):
            separator, lines[first] = stated[1], "\n"
        if separator not in _SEPARATORS:
            raise ValueError(
                f"{name}: columns must be separated by a comma, a semicolon, a tab or |"
            )
        reader = csv.reader(lines, delimiter=separator, strict=True)
        try:
            every = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
        except csv.Error as error:
            raise ValueError(f"{name}: this is not a CSV file: {error}") from None
        if not (rows := [row for row in every if any(row[1])]):
            raise ValueError(f"{name}: there must be a line of column names, then lines of values")
        if len(rows) < 2:
            raise ValueError(f"{name}: there must be lines of values below the column names")
        (_, header), *rows = rows
        for line, cells in rows:
            if len(cells) != len(header):
                values = plural(len(header), "value")
                raise ValueError(f"{name}, line {line}: there must be {values}")
        columns = zip(header, zip(*(cells for _, cells in rows), strict=True), strict=True)
        used = [(title, cells) for title, cells in columns if title or any(cells)]
        if len(dict(used)) < len(used):
            unnamed = [str(place) for place, (title, _) in enumerate(used, start=1) if not title]
            found = f"; columns {listed(unnamed)} have no name" if unnamed[1:] else ""
            raise ValueError(f"{name}: the columns must have distinct names{found}")
        if not private and any(UNSEEN.search(title) for title, _ in used):
            raise ValueError(f"{name}: {_ONE_LINE.format('the names of columns')}")
        return cls(name, [line for line, _ in rows], dict(used), separator == ";", private)

    @cached_property
    def _first_comma(self) -> int | None:
        """The first line with a decimal comma, if commas may be decimal signs."""
        rows = zip(self.lines, zip(*self.columns.values(), strict=True), strict=True)
        lines = (line for line, cells in rows if any(map(_DECIMAL_COMMA.fullmatch, cells)))
        return next(lines, None) if self.comma else None

    def cells(self, column: str) -> Iterator[tuple[int, str]]:
        """Return the cells of a column, each with its line number."""
        return zip(self.lines, self.columns[column], strict=True)

    def wrong(self, line: int, what: str) -> ValueError:
        """Return the error that states what is wrong in a line."""
        return ValueError(f"{self.path}, line {line}: {what}")

    def named(self, name: str, option: str = "") -> str:
        """Return the name of a column, ignoring case; `option` is the one that chooses another."""
        wanted = normal(name)
        alike = [entry for entry in self.columns if entry.casefold() == wanted.casefold()]
        if wanted in self.columns or len(alike) == 1:
            return wanted if wanted in self.columns else alike[0]
        # The first line of a private file may contain rewards.
        found = "its first line must contain the names of the columns"
        if not self.private:
            found = f"the columns are {listed(map(quoted, self.columns))}"
        way = f"; choose one with {option}" if option else ""
        raise ValueError(f"{self.path}: there is no column {quoted(wanted)}; {found}{way}")

    def labels(self, column: str) -> tuple[str, ...]:
        """Return the cells of a column, which are distinct names of arms."""
        found: dict[str, int] = {}
        for line, label in self.cells(column):
            if not label:
                raise self.wrong(line, "the arm has no name")
            if UNSEEN.search(label):
                raise self.wrong(line, _ONE_LINE.format("the name of an arm"))
            if label in found:
                raise self.wrong(line, f"arm {label!r} is already in line {found[label]}")
            found[label] = line
        return tuple(found)

    @cached_property
    def of_words(self) -> list[str]:
        """The names of the columns with letters in some cell."""
        return [
            name
            for name, cells in self.columns.items()
            if any(_LETTERS.search(cell) and cell.casefold() not in _NO_WORDS for cell in cells)
        ]

    def words(self, column: str) -> list[str]:
        """Return the distinct cells of a column of categories, sorted."""
        found: dict[str, str] = {}
        for line, word in self.cells(column):
            what = f"category {quoted(word)} of {column}"
            if word.casefold() in _MISSING - {"none"}:
                raise self.wrong(
                    line,
                    f"{what} seems to be missing: leave out the line, or use a word such as "
                    "unknown",
                )
            if UNSEEN.search(word):
                raise self.wrong(line, _ONE_LINE.format(f"a category of {column}"))
            other = found.setdefault(" ".join(word.casefold().split()), word)
            if word != other:
                raise self.wrong(
                    line,
                    f"{what} differs from {quoted(other)} only in capitals or spaces: write both "
                    "in the same way, or rename one of them",
                )
        return sorted(found.values())

    def number(self, line: int, text: str, what: str, remedy: str = "") -> float:
        """Return the finite number in a cell; True and False are 1 and 0."""
        if text.casefold() in _TRUTH:
            return _TRUTH[text.casefold()]
        if text.casefold() in _MISSING:
            column = ", or choose other columns with --features" if remedy else ""
            rule = f"{what} must be a number, but is missing: leave out the line{column}"
            raise self.wrong(line, rule)
        got = "" if self.private else f", got {text!r}"
        if "." in text and self._first_comma:
            raise self.wrong(
                line,
                f"{what} has a point{got}, but a number in line {self._first_comma} has a comma: "
                "use the same decimal sign for all numbers, and no thousands separators",
            )
        try:
            value = float(text.replace(",", ".") if self.comma else text)
        except ValueError:
            if _DECORATED.fullmatch(text):
                remedy = (
                    ": write it with a decimal point, and without thousands separators, %, currency"
                    " sign or unit"
                )
            raise self.wrong(line, f"{what} must be a number{got}{remedy}") from None
        if not math.isfinite(value) or "_" in text:
            raise self.wrong(line, f"{what} must be a finite number{got}")
        return value


def normal(text: str) -> str:
    """Return text with accents in a normal form, and without spaces around it."""
    return unicodedata.normalize("NFC", text).strip()


def nearest(text: str, names: Iterable[str]) -> str:
    """Return a hint at the most similar name, or an empty text; always empty for a number."""
    folded = {name.casefold(): name for name in names}
    found = get_close_matches(normal(text).casefold(), folded, 1)
    is_number = re.match(r"[-+.,\d]", normal(text))
    return f"; did you mean {quoted(folded[found[0]])}?" if found and not is_number else ""


def quoted(name: object) -> str:
    """Return a name as part of a list: shortened, and in quotes if it contains separators."""
    text = visible(str(name))
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(',;"') else text


def listed(entries: Iterable[str], width: int = _WIDTH) -> str:
    """Return the entries that fit on one line, and how many more there are."""
    entries = list(entries) or ["nothing"]
    ends = accumulate(len(entry) + 2 for entry in entries)
    kept = max(sum(end <= width for end in ends), 1)
    more = len(entries) - kept
    return ", ".join(entries[:kept]) + (f" and {more} more" if more else "")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 reward" or "2 rewards"."""
    return f"{count} {noun}{'s' * (count != 1)}"


def _text(path: str, name: str) -> str:
    """Return the text of a file or of standard input, in UTF-8 or UTF-16."""
    if path != STANDARD_INPUT:
        data = _check.path(path, "a table").read_bytes()
    elif sys.stdin is None:  # as after <&-
        raise ValueError("standard input is closed: pipe a table into it, or name a file")
    else:
        data = sys.stdin.buffer.read()
    if data.startswith(_WORKBOOKS):
        raise ValueError(
            f"{name}: this is a workbook of a spreadsheet program: save the sheet as CSV (UTF-8), "
            "and use that file"
        )
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ValueError(f"{name}: this is not text in UTF-8 or UTF-16: save it as CSV (UTF-8)")
    return text
