"""From a connection to rows.

`session` reads pages, `page` builds their SQL, `learned` keeps what is known of the table, `inspection` asks for it,
`whereabouts` says which table that is, `current_bound` how far pages may read, `records` and `keys` check what comes,
`forms` refuses what would skip rows, `blame` finds the value that cannot be read, `parsing` reads typed
cursors.
"""
