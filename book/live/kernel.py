"""The Python side of a page that runs: IPython in a worker of the browser.

The worker provides the module `page`, whose `send` takes a message as JSON. An
output is sent as a notebook stores it.
"""

import json
import logging
import os
import sys
from io import TextIOBase
from types import ModuleType, SimpleNamespace
from typing import Any

import page
import tqdm
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell


def show(**output: object) -> None:
    """Send an output to the page."""
    page.send(json.dumps({"type": "output", "output": output}, default=str))


class Stream(TextIOBase):
    """The stream that `print` writes to."""

    def __init__(self, name: str) -> None:
        self.name = name

    def writable(self) -> bool:
        """Return True: text can be written, but not read."""
        return True

    def write(self, text: str) -> int:
        """Send a text at once: a reader sees the progress of a long cell."""
        show(output_type="stream", name=self.name, text=text)
        return len(text)


class Publisher(DisplayPublisher):
    """Sends what `display` shows."""

    def publish(self, data: dict, *_: object, **__: object) -> None:
        """Send all forms of it."""
        show(output_type="display_data", data=data)


class Result(DisplayHook):
    """Sends the value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """Write no prompt: the page numbers its cells."""

    def write_format_data(self, data: dict, _: object = None) -> None:
        """Send all forms of it."""
        show(output_type="execute_result", data=data)


class Shell(InteractiveShell):
    """IPython without a terminal."""

    def _showtraceback(self, kind: Any, error: Any, lines: list[str]) -> None:
        show(
            output_type="error",
            ename=kind.__name__,
            evalue=str(error),
            traceback=lines,
        )

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: a page has no other windows."""


def start() -> Shell:
    """Return a shell in the folder of the chapters."""
    os.chdir("/home/pyodide/book")
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    sys.path[:0] = ["/home/pyodide", "/home/pyodide/book"]
    # A browser has one process, to which every lock on a file is granted. An error
    # comes where another is started, not where the library imports what could.
    locks = {"LOCK_SH": 1, "LOCK_EX": 2, "LOCK_NB": 4, "LOCK_UN": 8}
    sys.modules["fcntl"] = SimpleNamespace(flock=lambda *_: None, **locks)
    sys.modules["_multiprocessing"] = ModuleType("_multiprocessing")
    sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
    Shell.displayhook_class, Shell.display_pub_class = Result, Publisher
    tqdm.tqdm.monitor_interval = 0  # which would start a thread
    shell = Shell.instance()
    shell.history_manager.enabled = False
    # Its first start takes a moment, which is no part of what a cell shows.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    return shell


shell = start()


def run(code: str) -> bool:
    """Run a cell, and return whether it ended without an error."""
    return shell.run_cell(code, store_history=True).success
