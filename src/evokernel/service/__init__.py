"""Verification over HTTP: tenants submit kernels, a durable queue keeps them, workers verify them."""
