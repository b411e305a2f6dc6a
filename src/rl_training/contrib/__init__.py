"""Algorithms that are useful but less settled than the core: `from rl_training.contrib import ARS`."""

from rl_training.contrib.ars import ARS

__all__ = ["ARS"]
