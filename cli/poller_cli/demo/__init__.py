"""`poller demo`: flights arrive in a table while two workers compete for them, and one is killed in mid-batch; or, with
`--poison`, while one flight fails whenever it is handled."""
