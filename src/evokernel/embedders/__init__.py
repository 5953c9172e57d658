"""Text to unit vectors: one module per embedder."""
