"""Fixtures of the tests of the command line."""

import pytest


@pytest.fixture
def done(call):
    """Runs a command that must succeed without notes; returns its output."""

    def done(*arguments):
        code, out, err = call(*arguments)
        assert (code, err) == (0, "")
        return out

    return done


@pytest.fixture
def refused(call):
    """Runs a command that must fail with exit code 2 and one line on stderr; returns this line."""

    def refused(*arguments):
        code, out, err = call(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("dpbai")
        return err

    return refused
