"""Exported graphs in fewer bits."""
