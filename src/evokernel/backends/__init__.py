"""What kernels can be written for: one folder each, found by name."""
