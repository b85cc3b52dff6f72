"""State in Azure Blob Storage or Azurite.

`store` is the store, `account` reads which account is meant, `container` holds the client, `transport` is the HTTP
under it, `log` keeps log documents in append blobs, `checkup` examines the account.
"""
