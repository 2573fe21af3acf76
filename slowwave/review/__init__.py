"""Review: what waits for a person, why, and what saying yes or no would write."""
