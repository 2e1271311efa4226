"""How English words are pronounced: lexicons, and the phonemes that they are written in."""
