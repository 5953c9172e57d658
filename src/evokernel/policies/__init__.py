"""Search strategies: what to try next, and what to show for it. One module each."""
