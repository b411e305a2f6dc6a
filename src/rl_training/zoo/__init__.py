"""Curated settings and measured results. The zoo calls the public API; it is never a second runtime."""
