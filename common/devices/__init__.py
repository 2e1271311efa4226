"""Where and how work is done: processes, precision, threads, memory, graphs."""
