"""The library against a table of 30 digits that `tools/reference_table.py` made by mpmath."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from reference import CALLS, ROWS, deviation


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']} {row['arguments']}")
def test_the_library_agrees_with_the_reference_table(row):
    assert deviation(row) <= row["rtol"]


def test_the_table_has_the_hard_corners():
    assert len(ROWS) >= 200
    assert Counter(row["kind"] for row in ROWS).keys() == CALLS.keys()
    errors = [abs(float(row["value"])) for row in ROWS if not row["kind"].startswith("gaussian")]
    assert min(value for value in errors if value > 1e-250) < 1e-100
    text = json.dumps(ROWS)
    for corner in ('["bernoulli", 1.0]', "1000000000,", "5e-324", "1e+300"):
        assert corner in text
