"""What makes of a recording another one in each epoch."""
