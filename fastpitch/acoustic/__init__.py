"""The acoustic model: from symbols to mel frames, and what it is trained on."""
