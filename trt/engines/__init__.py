"""Engines of TensorRT: built, described and checked."""
