"""Records of rows that were passed without success (failures, "The record and the commands").

`records` opens and settles them, `reader` reads them, `prune` removes them; `record` is one record, `values` a row's
values as JSON. The state document says which rows wait; a record that it does not list is what a stale owner left.
"""
