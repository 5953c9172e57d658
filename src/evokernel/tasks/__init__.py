"""Tasks: PyTorch operators in KernelBench's format. A suite is a folder, in here or anywhere."""
