"""A server of recognisers and voices: one gateway that speaks what clients of speech services already speak."""
