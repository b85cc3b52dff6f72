"""What an operator sees and may change beside the workers: status, findings, edits, restored checkpoints.

All take a `wired` poller. `look` is one look at a poller: `facts` says what a document, a page and an error say of
it, and `poller.model.conditions` makes the picture. `status` is what it shows to an operator, `health` the public
half of that. `round` looks at many at once for their health (`quick` if nothing waits), with what
the looks before remembered (`memory`); `side_by_side` does for the console. `doctor` looks at what a poller stands
on, `peek` at its next rows, `history` at its audit trail, and `export` at its checkpoint alone; none of them changes
a poller.

`changes` is how every change is made: a preview, what refuses it, agreement, the write, and a result. A `request`
says how it is asked for, a `conversation` shows it and asks, and a `change_result` is what was done. The changes are
`plans` (pause, resume, the resets to a place), `rebind`, `restore`, `clone` and `import_azure_functions_db`.

Beneath them `editor` writes: a backup first, one compare-and-swap, an audit record; `recovery` does so where no
document can be read. `effects` says what a moved checkpoint does to rows, `cursors` whether a cursor fits a source,
and `refusals` are the errors of changes that are not made.
"""
