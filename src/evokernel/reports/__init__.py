"""Reports on a run, computed from its attempts: metrics, tables, plots, a page, exported kernels, training data."""
