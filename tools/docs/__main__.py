"""Run the generation of the documentation's tables: `python -m tools.docs [--check]`."""

from __future__ import annotations

import sys

from tools.docs.generate import main

sys.exit(main())
