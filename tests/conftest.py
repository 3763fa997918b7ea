"""Settings that all tests share."""

import os

import pytest
from hypothesis import settings

from dpbai.field import cli

# Files of tests live in memory where there is a place for that: thousands of them are forced to the
# disk, or written over what is there, and a disk takes milliseconds for each.
if os.access("/dev/shm", os.W_OK):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")

# The same examples in each run, and no verdict that depends on the speed of the machine.
settings.register_profile("few", derandomize=True, deadline=None, print_blob=True, max_examples=50)
settings.register_profile("many", settings.get_profile("few"), max_examples=400)
settings.load_profile("few")


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Runs a command in a fresh directory; returns its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return code, out, err

    return call
