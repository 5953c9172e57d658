"""One step of an optimiser: new parameters and new state from gradients."""
