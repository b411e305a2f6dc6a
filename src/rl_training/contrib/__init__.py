"""Algorithms that are useful but less settled than the core. Nothing yet."""
