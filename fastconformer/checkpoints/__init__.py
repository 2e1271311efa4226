"""Reading models: ours, NeMo's .nemo archives, Hugging Face folders. Nothing in them is executed or unpacked."""
