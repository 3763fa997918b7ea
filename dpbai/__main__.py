"""`python -m dpbai`: plan, run and study from the command line, see `dpbai.cli`."""

import sys

from dpbai.cli import main

if __name__ == "__main__":
    sys.exit(main())
