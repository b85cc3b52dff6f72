"""State in a container of Azure Cosmos DB for NoSQL.

`store` is the store, `account` reads which account is meant, `container` holds the client and the HTTP under it,
`errors` says what each refusal means, `items` makes items of documents, `log` keeps log documents as an item for each
line, `checkup` examines the container.
"""
