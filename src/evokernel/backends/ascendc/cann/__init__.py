"""Builds, runs and measures candidates with CANN's own tools, on machines that have them."""
