"""Take the chapters as `make book` has just run them, all cores at work, in place of running them.

The folder comes by the environment, for one build: whoever builds without it has every chapter run
by MyST-NB itself, one after the other, so that no number is ever older than the library.
"""

import os

from sphinx.application import Sphinx
from sphinx.config import Config

FOLDER = "DPBAI_EXECUTED"


def take_executed(_app: Sphinx, config: Config) -> None:
    """Let MyST-NB read a cache of executed notebooks; it runs what it does not find there."""
    if FOLDER in os.environ:
        config.nb_execution_mode = "cache"
        config.nb_execution_cache_path = os.environ[FOLDER]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("config-inited", take_executed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
