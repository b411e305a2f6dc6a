"""Large tensors come and go with every update on a CPU: their memory is kept, and not given back to the system each time."""

from __future__ import annotations

import ctypes
import sys

# Options of glibc's mallopt, and values: nothing below 32 MiB (the most that it takes) is mapped by itself, and a gigabyte stays.
OPTIONS = {"M_MMAP_THRESHOLD": (-3, 32 << 20), "M_TRIM_THRESHOLD": (-1, 1 << 30), "M_TOP_PAD": (-2, 64 << 20)}


def keep_freed_memory() -> bool:
    """Set the options for this process, where there is glibc; tells whether they were taken."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    taken = [] if mallopt is None else [mallopt(option, value) == 1 for option, value in OPTIONS.values()]
    return bool(taken) and all(taken)
