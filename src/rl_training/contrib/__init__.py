"""Algorithms that are useful but less settled than the core: `from rl_training.contrib import ARS`."""

from rl_training.contrib.ars import ARS
from rl_training.contrib.decision_transformer import DecisionTransformer

__all__ = ["ARS", "DecisionTransformer"]
