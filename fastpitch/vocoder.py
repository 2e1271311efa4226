"""The former name of `fastpitch.vocoders.vocoder`."""

from fastpitch.vocoders.vocoder import Denoiser, Vocoder, VocoderError, load_generator, load_vocoder

__all__ = ["Denoiser", "Vocoder", "VocoderError", "load_generator", "load_vocoder"]
