"""What is written beside the state document, never in a commit's way.

`audit` is the trail of takeovers, halts and operators' changes; `delivery_log` says which rows were delivered, for
`recheck`; both write through `background`.
"""
