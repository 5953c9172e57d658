"""Products of matrices, vectors and tensors, in every layout and with special structure."""
