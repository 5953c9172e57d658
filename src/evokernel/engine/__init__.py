"""The paper's algorithm: the loop, the rewards, the duplicate filter and the final re-evaluation."""
