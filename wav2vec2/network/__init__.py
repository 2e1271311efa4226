"""The network: audio to representations and to labels."""
