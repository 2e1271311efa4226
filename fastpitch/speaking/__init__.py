"""From a text to samples: the acoustic model and a vocoder together."""
