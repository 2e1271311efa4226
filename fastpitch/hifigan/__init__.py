"""HiFi-GAN and a light inverse-STFT vocoder: mel spectrograms to audio, trained with discriminators. See README.md."""
