"""Writing to a terminal and asking on it: lines, colours, progress, the screen of `watch`, `--help`."""
