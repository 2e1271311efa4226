"""Parts that two models need and neither owns: configuration, audio, features, text, data, training."""
