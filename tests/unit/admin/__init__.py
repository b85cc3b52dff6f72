"""What operators see and change, from Python."""
