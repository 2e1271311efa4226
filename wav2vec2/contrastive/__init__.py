"""Pre-training's objective: what is masked, what it is told apart from, and how codes are chosen."""
