"""What an operator sees and may change beside the workers: status, findings, edits, restored checkpoints.

All take a `wired` poller. `status` looks at one poller, `doctor` at what it stands on, `peek` at its next rows,
`history` at its audit trail, and `export` at its checkpoint alone; none of them writes.

`kept_health` is where the health of an application's pollers is asked for, and what the store keeps of it, so that many
who ask cost one look. `health_round` looks at many at once, `health_look` at one (`health_quick` where nothing waits,
`health_facts` for the rule in `poller.model.health`), and `health_words` says it.

`changes` is how every change is made: a preview, what refuses it, agreement, the write, and a result. A `request`
says how it is asked for, a `conversation` shows it and asks, and a `change_result` is what was done. The changes are
`plans` (pause, resume, the resets to a place), `rebind`, `restore`, `clone` and `import_azure_functions_db`.

Beneath them `editor` writes: a backup first, one compare-and-swap, an audit record; `recovery` does so where no
document can be read. `effects` says what a moved checkpoint does to rows, `cursors` whether a cursor fits a source,
and `refusals` are the errors of changes that are not made.
"""
