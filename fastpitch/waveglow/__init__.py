"""Commands under the names they had; they are in `fastpitch.vocoders` now."""
