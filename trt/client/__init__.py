"""A client of `trt.serve`: asks, measures under many clients, streams live captions. Needs no torch."""

from trt.client.command import ClientConfig, main

__all__ = ["ClientConfig", "main"]
