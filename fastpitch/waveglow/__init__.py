"""WaveGlow: audio from mel spectrograms by an invertible network, trained by maximum likelihood. See README.md."""
