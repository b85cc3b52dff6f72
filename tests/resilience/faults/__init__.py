"""Faults on the way to the storage service: a proxy that breaks requests on a plan. Start at
`proxy.FaultProxy`.
"""
