"""A training run: its data and network, what it minimises, its error rates."""
