"""From the bytes of a recording to its transcript, as requests ask for it."""
