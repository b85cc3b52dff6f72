"""What an operator may change beside the workers: edits of the state document, and checkpoints put back from a file.

`editor` makes one change under the guards of every change: a backup first, one compare-and-swap, an audit record.
`effects` says what a moved checkpoint does to rows, `cursors` whether a cursor fits a source, and `refusals` are the
errors of changes that are not made. `restore` reads an exported checkpoint and puts it back.
"""
