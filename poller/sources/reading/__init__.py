"""From a connection to rows.

`session` reads pages, `page` builds their SQL, `records` and `keys` check what comes, `connection`, `read_only` and
`faults` keep the database at a distance, `blame` finds the value that cannot be read, `parsing` reads typed cursors.
"""
