"""What must hold before a release: `python -m scripts.release`. It publishes nothing."""
