"""One tick: from "may I work?" to "what came of it".

`runner` starts ticks, one at a time; `tick` is the sequence; `preflight` says why a tick does nothing; `idle_writes`
are the few writes that a tick without rows makes; `recheck` looks again at rows behind the checkpoint; `context` is
what all of them share; `result` is what the caller gets.
"""
