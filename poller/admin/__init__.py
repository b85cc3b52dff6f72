"""What an operator sees and may change beside the workers: status, findings, edits, restored checkpoints.

`status` looks at one poller, `doctor` at what it stands on; neither writes. Both take a `wired` poller.
`editor` makes one change under the guards of every change: a backup first, one compare-and-swap, an audit record.
`effects` says what a moved checkpoint does to rows, `cursors` whether a cursor fits a source, and `refusals` are the
errors of changes that are not made. `restore` reads an exported checkpoint and puts it back.
"""
