"""What README and docs show is run."""
