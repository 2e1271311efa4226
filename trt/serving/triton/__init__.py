"""NVIDIA's Triton Inference Server as the engine behind the gateway."""
