"""Operators of a user's PyTorch model: extracts them as tasks, ranked by time, and substitutes verified kernels for them."""
