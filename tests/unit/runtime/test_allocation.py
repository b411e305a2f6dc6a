"""Memory of large tensors is taken from the heap, which keeps it, and not mapped anew from the system each time."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, sys
if sys.argv[1] == "keep":
    from rl_training.runtime.allocation import keep_freed_memory
    assert keep_freed_memory()
libc = ctypes.CDLL(None)
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
libc.mallinfo2.restype = Info
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
before = libc.mallinfo2().hblkhd
assert libc.malloc(16 << 20)
print(libc.mallinfo2().hblkhd - before)  # bytes in blocks that the system maps by themselves
"""


def mapped(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_large_blocks_are_not_mapped_by_themselves() -> None:
    assert mapped("usual") >= 16 << 20
    assert mapped("keep") == 0
