"""Database connections that sources, SQL stores and sinks share.

`urls` reads and guards URLs and opens engines; `errors` reads what drivers raise; `samplers` look at a server's open
transactions, once for all pollers of a process.
"""
