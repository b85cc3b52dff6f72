"""The console as its users meet it: real processes, their output and their exit codes."""
