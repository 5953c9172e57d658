"""Manifold-constrained hyper-connections: fifteen operators around residual streams that are read, mixed and written."""
