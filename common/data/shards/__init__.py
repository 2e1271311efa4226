"""Data sets in few large files: written, indexed in place, checked and repaired."""
