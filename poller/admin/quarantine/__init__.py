"""Rows that wait: what a person sees of them, and does with them (failures, "The record and the commands").

`waiting` is `Poller.quarantine`. `listing` reads: which rows wait, and one of them with its content. `choice` says
which rows a command is about, `records` reads and settles their records. `discard` gives rows up, and `add` sets
one aside by hand: changes as all others are (`poller.admin.changes`). `replay` hands them to the handler again.
"""
