"""Where batches come from: rollout, replay, dataset and mixture buffers, and the storage under them."""
