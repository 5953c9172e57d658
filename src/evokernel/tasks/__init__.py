"""Tasks: PyTorch operators in KernelBench's format. A suite is a folder of task files, in this package or elsewhere."""
