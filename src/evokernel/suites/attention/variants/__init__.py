"""Other ways to score, mix and gate, and attention over learned tensors."""
