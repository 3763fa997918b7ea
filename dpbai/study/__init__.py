"""Studies: policies by budgets by epsilons, simulated cell by cell, in any executor, resumable.

Here are the grid, the file of its finished cells, and the table that comes of them. Nothing here
knows how a cell is simulated: a cell is one call of `dpbai.simulate`.
"""

from dpbai.study.grid import study, takes_epsilon

__all__ = ["study", "takes_epsilon"]
