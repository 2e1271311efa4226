"""Long recordings in parts: cuts in pauses, overlapping chunks, and batches of them through a network."""
