"""From a connection to rows.

`session` reads pages, `page` builds their SQL, `inspection` says what the database knows of the table, `whereabouts`
which table that is, `current_bound` how far pages may read, `records` and `keys` check what comes, `continuity` and
`forms` refuse what would skip rows, `blame` finds the value that cannot be read, `parsing` reads typed cursors.
"""
