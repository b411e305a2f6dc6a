"""Pure functions of tensors: what a loss is made of. They know no network, optimizer, buffer or discount factor."""
