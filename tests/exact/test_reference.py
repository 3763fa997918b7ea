"""The library against a table with 30 digits, which `tools/reference_table.py` made with mpmath."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from reference import CALLS, ROWS, deviation, rows_of


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']} {row['arguments']}")
def test_the_library_agrees_with_the_reference_table(row):
    assert deviation(row) <= row["rtol"]


def test_the_table_includes_extreme_arguments():
    assert len(ROWS) >= 200
    assert Counter(row["kind"] for row in ROWS).keys() == CALLS.keys()
    errors = [abs(float(row["value"])) for row in ROWS if not row["kind"].startswith("gaussian")]
    assert min(value for value in errors if value > 1e-250) < 1e-100
    text = json.dumps(ROWS)
    for corner in ('["bernoulli", 1.0]', "1000000000,", "5e-324", "1e+300"):
        assert corner in text


@pytest.mark.parametrize("kind", CALLS)
def test_a_value_with_a_larger_error_than_its_row_allows_is_detected(kind, monkeypatch):
    for row in rows_of(kind):
        for sign in (1, -1):
            wrong = float(row["value"]) * (1 + 2 * sign * row["rtol"]) or 5e-324
            monkeypatch.setitem(CALLS, kind, lambda *_, wrong=wrong: wrong)
            assert deviation(row) > row["rtol"]


def test_rows_can_be_selected_by_law():
    for law, other in (("uniform", "bernoulli"), ("bernoulli", "uniform")):
        rows = rows_of("duel", law)
        assert rows
        assert {row["kind"] for row in rows} == {"duel"}
        assert law in json.dumps(rows)
        assert all(row["arguments"][0][0][0] != other for row in rows)
