"""Runs of a policy on real rewards, with noise that is suitable for a release.

A session runs a policy phase by phase, saves each step in a file, and releases noisy statistics.
Its privacy guarantee is that of `dpbai.certificate`.
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
