"""Exported models in use, without torch."""
