"""The loop and the rewards: the paper's algorithm and nothing else."""
