"""Checkpoints, whoever wrote them, under this repository's names."""
