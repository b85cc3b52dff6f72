"""State in Azure Blob Storage or Azurite.

`store` is the store, `account` says which one is meant, `container` holds the client, `transport` is the HTTP under it,
`log` keeps log documents in append blobs, `checkup` looks at the account before it goes wrong.
"""
