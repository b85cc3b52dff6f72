"""What is written beside the state document: trails, logs, and the records of rows that failed.

`audit` is the trail of takeovers, halts and operators' changes; `delivery_log` says which rows were delivered, for
`recheck`; both write through `background`, never in a commit's way. `quarantine` holds rows that failed: their records
are written before the commit that passes them. `configurations` are hints, by which two apps under one name notice
each other.
"""
