"""Whatever writes kernels (G): one module or folder per generator, found by name."""
