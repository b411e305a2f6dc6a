"""A run on disk: its folder, lock, provenance, checkpoints and logs."""
