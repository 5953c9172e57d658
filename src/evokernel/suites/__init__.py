"""Tasks: PyTorch operators in KernelBench's format, and their lint. A suite is a folder of task files, in this package or elsewhere."""
