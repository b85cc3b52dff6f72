"""Mutants: small wrong changes of the real code, each of which the simulation must notice.

A proof is worth what it can distinguish. `table` lists the changes and what they break; the test applies each to a copy
of the package and runs the simulation on it in a process of its own.
"""
