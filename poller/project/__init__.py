"""A folder to start from: `poller.toml` and `handlers.py`, written for a table of a database that exists.

`plan` looks at the database and says what would be written, `choices` decides what was not given. `new_poller` is the
text of the two files, `file` a `poller.toml` that is added to, `url` where the database's URL is kept. Nothing in a
database is changed.
"""
