"""Scaled dot-product attention: its masks, biases, caps, precisions and its backward pass."""
