"""The table of lectures: counts of ratings, by kind of lecture."""

from pathlib import Path

import lectures_table
import pandas as pd

COMMITTED = Path(__file__).parents[2] / "book" / "data" / "lectures.csv"


def test_the_script_writes_the_file_that_is_committed(tmp_path):
    """From the ratings that it counts, in another order, and a kind with too few of them."""
    table = pd.read_csv(COMMITTED)
    ratings = table.melt(lectures_table.KIND, var_name="y", value_name="count")
    ratings["y"] = ratings["y"].astype(int)
    few = pd.DataFrame({"department": 99, "service": 1, "age": 6, "y": [1, 5], "count": [75, 74]})
    ratings = pd.concat([few, ratings], ignore_index=True)
    ratings = ratings.loc[ratings.index.repeat(ratings["count"])]
    source = tmp_path / "ratings"
    named = ratings.rename(columns={"department": "dept", "age": "lectage"})
    named.to_pickle(source, compression="xz")
    assert lectures_table.main([str(source), str(tmp_path)]) == 0
    assert (tmp_path / "lectures.csv").read_bytes() == COMMITTED.read_bytes()
    assert (table[list("12345")].sum(axis=1) >= lectures_table.FEWEST).all()
