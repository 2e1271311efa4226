"""Losses from logits and from the joint: native, on GPUs in tiles, in plain torch."""
