"""The attention decoder of FastConformer models that transcribe and translate: network, prompts, search."""
