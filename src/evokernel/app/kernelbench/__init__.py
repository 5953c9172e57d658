"""KernelBench solutions (`ModelNew`): each is judged by the strict protocol and by KernelBench's own criterion, side by side."""
