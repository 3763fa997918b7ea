"""The command line, `python -m dpbai`: see `dpbai.field.cli`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code; Ctrl-C ends the process."""
    signal.signal(signal.SIGINT, _interrupted)
    from dpbai.field import cli

    return cli.main(argv)


def _interrupted(*_: object) -> None:
    """Exit at once: `KeyboardInterrupt` during an import could surface as another exception."""
    os.write(2, b"dpbai: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
