"""What inference makes of weights, keeps of them, and needs of them."""
