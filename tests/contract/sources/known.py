"""What is known to go wrong, on several databases."""

RESORTED = "rows of a tie that are sorted otherwise now, by another type or collation of the key, are passed"
NARROWED = "rows whose time became that of the checkpoint, with a lower key, are passed"
SWAPPED = "another table under the name is taken for the one that was read"
STUCK = "a running poller goes on refusing after the column was changed back; a new process does not"
BLOCKS = "a running poller goes on with numbers that sessions now get in blocks"
UNKEYED = "a running poller does not see that its key is unique no longer"
