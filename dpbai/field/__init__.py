"""A run on real rewards: `session` executes a policy, `cli` is the command line, `figures` draws.

Each of the three is a package of its own, imported when it is used: the command line's help needs
neither NumPy nor the library, and Matplotlib is needed for figures only.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
