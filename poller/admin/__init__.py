"""What an operator sees and may change beside the workers: status, findings, edits, restored checkpoints.

`status` looks at one poller, `doctor` at what it stands on; neither writes. All take a `wired` poller.
`changes` is how every change is made: a preview, what refuses it, agreement, the write, and a result. `plans` are the
changes by name. `editor` writes: a backup first, one compare-and-swap, an audit record.
`effects` says what a moved checkpoint does to rows, `cursors` whether a cursor fits a source, and `refusals` are the
errors of changes that are not made. `restore` reads an exported checkpoint and puts it back.
"""
