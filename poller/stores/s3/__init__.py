"""State in a bucket of Amazon S3, or of a service that speaks its protocol.

`store` is the store, `bucket` holds the client, `transport` is the HTTP under it, `errors` says what each refusal
means, `log` keeps log documents as an object for each line, `conditions`
tries whether the endpoint keeps conditions, `checkup` examines the bucket.
"""
