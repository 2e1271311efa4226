"""Speed and memory beside other implementations and beside what was published."""
