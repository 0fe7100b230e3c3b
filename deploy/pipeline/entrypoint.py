"""Run a job of the pipeline as `spark-submit` wants it: as a file."""

import sys

from signproxy.cli import main

sys.exit(main(["pipeline", *sys.argv[1:]]))
