"""European languages as they are spoken: the engine of English with a table for each language."""
