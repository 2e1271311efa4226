"""Convolutions of every channel by itself in 8 bits, four taps at a time, for ONNX Runtime.

In an int8 file they are one node each, the mask before them included, of an operator that the file itself defines by
standard ones (a function of ONNX), for sessions without the native code. `library.register` gives ONNX Runtime that
code; `rewriting.joined`, which needs the package onnx, writes such files.
"""
