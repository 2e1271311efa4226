"""The acoustic model's training: its data, what it minimises, what it shows."""
