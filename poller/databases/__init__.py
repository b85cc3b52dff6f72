"""Database connections that sources, SQL stores and sinks share.

`urls` reads and checks URLs, says which database they mean, and opens engines; `pools` lend connections to sources;
`errors` reads what drivers raise; `samplers` take samples of a server's open transactions, once for all pollers of a
process.
"""
