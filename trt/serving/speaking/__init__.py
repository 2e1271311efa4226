"""From a text to sound, piece by piece, in the formats of requests."""
