"""Speed and memory beside other implementations."""
