"""FastPitch and its vocoders: text to speech with control of pace, pitch and energy. See fastpitch/README.md."""
