"""One tick: from "may I work?" to "what came of it".

`runner` starts ticks, one at a time; `tick` is the sequence; `preflight` says why a tick does nothing; `reader` reads
its pages; `leased` hands rows to the handler under a lease, and `failure` describes what the handler raised;
`idle_writes` are the few writes that a tick without rows makes. `recheck` looks again at rows behind the checkpoint,
`redeliver` delivers those it found. `context` is what all of them share, `watches` what is known of the source from
tick to tick; `result` is what the caller gets.
"""
