"""KernelBench solutions (`ModelNew`): each is evaluated by the strict protocol and by KernelBench's own criterion, side by side."""
