"""From mel frames to audio: HiFi-GAN, an inverse-STFT generator and WaveGlow. See fastpitch/vocoders/README.md."""
