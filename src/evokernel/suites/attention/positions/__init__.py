"""Attention that knows where tokens are: rotations, relative terms and learned biases."""
