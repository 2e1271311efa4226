"""A training run: its data and network, and its error rates."""
