"""Files: written whole or not at all, and told apart by what they hold."""
