"""Measurements of the losses and the decoder, and the other sides that they are compared with."""
