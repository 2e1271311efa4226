"""Recordings to texts after prompts, by attention decoders. Needs no torch."""
