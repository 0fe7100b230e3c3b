"""Let no test of the gate wait for what a server would."""

from __future__ import annotations

from tests.impatience import impatient

__all__ = ["impatient"]
