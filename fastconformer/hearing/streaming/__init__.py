"""Audio while it comes: sessions, and the pool that serves them."""
