"""Writing to a terminal and asking on it: lines, colours, progress, keys, `--help`."""
