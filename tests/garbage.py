"""See whether refusals are kept by what they themselves keep, and wait for the garbage collector."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from signproxy.errors import Refused


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Do without the collector for a while, and fail for each refusal that it would have found."""
    was_frozen = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kept = ["".join(traceback.format_exception(each)) for each in gc.garbage if isinstance(each, Refused)]
        assert not kept, f"{len(kept)} refusals are kept by what they keep, the first one:\n{kept[0]}"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        if not was_frozen:
            gc.unfreeze()
