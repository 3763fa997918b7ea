"""A policy on real rewards, with noise that is fit for a release."""

from dpbai.session.guarantee import SessionCertificate
from dpbai.session.live import Session, SessionError
from dpbai.session.noise import NumpyNoise, OpenDPNoise, ReleaseNoise, ReleaseWarning
from dpbai.session.records import Released
from dpbai.session.single import Release, release

__all__ = [
    "NumpyNoise",
    "OpenDPNoise",
    "Release",
    "ReleaseNoise",
    "ReleaseWarning",
    "Released",
    "Session",
    "SessionCertificate",
    "SessionError",
    "release",
]
