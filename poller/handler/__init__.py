"""The user's function: how it is found, called and ended.

`batch` is what it gets, `load` finds it, `call` runs it; `subprocess` runs it in a child process, and `messages` cross
between the two. `reports` is what it can say, `result` what a call came to; `traces` keeps its failures
and its output from doing harm.
"""
