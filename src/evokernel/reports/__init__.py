"""What a run found, as functions of its attempts: metrics, tables, plots, a page, exported kernels."""
