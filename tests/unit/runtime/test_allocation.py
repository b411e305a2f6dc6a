"""Memory of large tensors is used again: after the first of them, few pages of a new one have to be made by the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import torch
if sys.argv[1] == "keep":
    from rl_training.runtime.allocation import keep_freed_memory
    assert keep_freed_memory()
def use():
    for _ in range(3):
        parts = [torch.ones(4 << 20) for _ in range(3)]  # 16 MiB each, alive together as in a backward pass
        del parts
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_freed_memory_is_used_again() -> None:
    kept, usual = faults("keep"), faults("usual")
    assert 4 * kept < usual, (kept, usual)
