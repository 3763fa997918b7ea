"""Build the book from the chapters that `make book` has just run, on all cores.

An environment variable names the folder with the executed chapters. Without it, MyST-NB runs all
chapters itself, one after the other, so that no number is older than the library.
"""

import os

from sphinx.application import Sphinx
from sphinx.config import Config

FOLDER = "DPBAI_EXECUTED"


def take_executed(_app: Sphinx, config: Config) -> None:
    """Let MyST-NB read a cache of executed notebooks; it runs those that are not in the cache."""
    if FOLDER in os.environ:
        config.nb_execution_mode = "cache"
        config.nb_execution_cache_path = os.environ[FOLDER]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("config-inited", take_executed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
