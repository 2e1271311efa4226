"""Recordings: read, written, resampled; what their headers say; speech by espeak-ng."""
