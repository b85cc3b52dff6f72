"""The tests. `make test` runs all but those marked `soak`; `make soak` runs those."""
