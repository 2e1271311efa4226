"""What the training of vocoders needs besides the networks: data, discriminators, losses, state."""
