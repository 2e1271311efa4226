"""Checkpoints of every origin, and the state of a run."""
