"""Sentences of made-up corpora."""
