"""Products and convolutions whose weights change at every step."""
