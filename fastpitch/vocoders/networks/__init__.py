"""The networks of the vocoders, a file each."""
