"""Decoding: the best path, beam search, and beam search of frames as they come."""
