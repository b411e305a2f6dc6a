"""How much memory is free."""

from __future__ import annotations

import os
import re
from pathlib import Path


def available_bytes() -> int:
    """Memory that can be used without swapping: the kernel's own estimate where there is one."""
    info = Path("/proc/meminfo")
    if info.exists() and (found := re.search(r"^MemAvailable:\s+(\d+) kB", info.read_text(), re.MULTILINE)):
        return int(found.group(1)) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
