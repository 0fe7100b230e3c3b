"""Run `python -m signproxy`."""

import sys

from signproxy.cli import main

if __name__ == "__main__":
    sys.exit(main())
