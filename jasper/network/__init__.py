"""The networks: as they are trained, and for inference only."""
