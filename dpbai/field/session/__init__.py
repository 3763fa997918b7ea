"""A policy on real rewards, with noise that is fit for a release.

The live run, its file, and what draws noise. Guarantees are those of `dpbai.certificate`.
"""

from dpbai.field.session.interval import Interval
from dpbai.field.session.ledger import Ledger, ledger
from dpbai.field.session.live import Session
from dpbai.field.session.records import Batch, Release, Released, SessionConflictError, SessionError
from dpbai.field.session.releases import NumpyNoise, OpenDPNoise, ReleaseWarning, release

__all__ = [
    "Batch",
    "Interval",
    "Ledger",
    "NumpyNoise",
    "OpenDPNoise",
    "Release",
    "ReleaseWarning",
    "Released",
    "Session",
    "SessionConflictError",
    "SessionError",
    "ledger",
    "release",
]
