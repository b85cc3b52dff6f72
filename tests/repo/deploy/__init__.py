"""What deploy/ and the Dockerfile hold is checked as far as that works without a cloud or an engine."""
