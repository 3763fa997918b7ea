"""`python -m dpbai`: plan, run and study from the command line, see `dpbai.field.cli`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line in a process of its own, and return its exit code."""
    signal.signal(signal.SIGINT, _interrupted)
    from dpbai.field import cli

    return cli.main(argv)


def _interrupted(*_: object) -> None:
    """End at once: an exception would become another one where it meets an import."""
    os.write(2, b"dpbai: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
