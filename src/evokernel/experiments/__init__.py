"""Experiments: many runs with several arms and seeds, their reports, and tools around runs, tasks, memory packs and kernels."""
