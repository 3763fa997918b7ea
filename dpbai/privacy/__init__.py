"""Privacy, computed from plans and attacked by audits (Sec. 2, App. C and D).

`certificate` bounds from above what any run can give away; the audits bound it from below. Nothing
here believes what a policy says of itself: a loss is computed from a plan's release and noise.
Nothing here executes a plan on real rewards, or knows how good its answers are.
"""

from dpbai.privacy.audit import Audit, TableGrid
from dpbai.privacy.certificate import Certificate, Mechanism, certificate, certify
from dpbai.privacy.exact_audit import exact_audit
from dpbai.privacy.monte_carlo_audit import LowerBound, monte_carlo_audit, run_on_table
from dpbai.privacy.pull_by_pull import PullByPull, pull_audit
from dpbai.privacy.survivors import log_survival

__all__ = [
    "Audit",
    "Certificate",
    "LowerBound",
    "Mechanism",
    "PullByPull",
    "TableGrid",
    "certificate",
    "certify",
    "exact_audit",
    "log_survival",
    "monte_carlo_audit",
    "pull_audit",
    "run_on_table",
]
