"""Companion to "Fixed-Budget Differentially Private Best Arm Identification".

A policy plans phases, and engines execute the plans: see `Phase`, `simulate` and `study`. The names
listed in `__init__.pyi` are imported when they are first used.
"""

import lazy_loader

__version__ = "0.3.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
