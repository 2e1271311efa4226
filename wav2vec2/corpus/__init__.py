"""Transcripts, lists of recordings, and batches of them."""
