"""The nouns, the seams and the three kinds of trouble. Knows nothing of the rest of the package."""
