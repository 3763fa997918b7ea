"""Audits: lower bounds on what a run reveals, beside the upper bound of `dpbai.certificate`.

`exact_audit` computes the law of the survivors on every reward table of a grid, `monte_carlo_audit`
samples it. `pull_audit` runs a policy pull by pull, the view in which privacy is defined (Sec. 2,
App. C and D); there `EarlyStopping` and `log_ratio` carry the change of measure of the lower bound.
No audit relies on what a policy states about itself.
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
