"""Mandarin as it is spoken, and its sounds: the engine of English with tables of its own."""
