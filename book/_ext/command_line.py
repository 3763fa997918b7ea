"""The directive `command-line`: what `dpbai --help` and `dpbai COMMAND --help` print."""

import argparse
import os
from unittest.mock import patch

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dpbai.field.cli import parser


class CommandLine(SphinxDirective):
    """The help of the command line, then of each command."""

    def run(self) -> list[nodes.Node]:
        """Return the help texts, at a width that fits the page."""
        top = parser()
        (commands,) = (a for a in top._actions if isinstance(a, argparse._SubParsersAction))
        shown = []
        with patch.dict(os.environ, COLUMNS="80"):
            for command in (top, *commands.choices.values()):
                text = command.format_help()
                shown.append(nodes.rubric(text=command.prog))
                shown.append(nodes.literal_block(text, text, language="none"))
        return shown


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
