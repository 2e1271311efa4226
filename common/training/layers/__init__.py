"""Layers that are only there in training, or another thing there."""
