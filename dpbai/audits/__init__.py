"""Audits: lower bounds on the privacy loss of a run; `dpbai.certificate` gives an upper bound.

`exact_audit` computes the law of the survivors on every reward table of a grid, and
`monte_carlo_audit` samples it. `pull_audit` audits policies that choose each pull separately, as in
the definition of privacy (Sec. 2, App. C and D). For such policies, `EarlyStopping` and `log_ratio`
check the change of measure in the proof of the lower bound. Audits do not use the privacy
parameters that a policy states.
"""

from dpbai.audits.audit import Audit, TableGrid
from dpbai.audits.early_stopping import EarlyStopping, WinStay, log_ratio
from dpbai.audits.exact_audit import exact_audit
from dpbai.audits.monte_carlo_audit import LowerBound, monte_carlo_audit, run_on_table
from dpbai.audits.pull import PullPolicy, bernoulli_law, output_law
from dpbai.audits.pull_by_pull import PullByPull, pull_audit
from dpbai.audits.survivors import log_survival

__all__ = [
    "Audit",
    "EarlyStopping",
    "LowerBound",
    "PullByPull",
    "PullPolicy",
    "TableGrid",
    "WinStay",
    "bernoulli_law",
    "exact_audit",
    "log_ratio",
    "log_survival",
    "monte_carlo_audit",
    "output_law",
    "pull_audit",
    "run_on_table",
]
