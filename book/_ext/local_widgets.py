"""Take the widgets' JavaScript from the static folder when `make book` has put it there.

Without it (no npm on the machine) MyST-NB's default, a public CDN, stays in force.
"""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

EMBED = "widgets/embed.js"


def use_local_widgets(app: Sphinx, config: Config) -> None:
    """Point MyST-NB to the local script."""
    if any(Path(app.srcdir, folder, EMBED).is_file() for folder in config.html_static_path):
        config.nb_ipywidgets_js = {EMBED: {}}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("config-inited", use_local_widgets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
