"""State in Azure Table Storage or Azurite, for which the package needs the extra `table`.

`store` is the store, `keys` turns names into keys, `bodies` splits a document over properties, `entities` holds the
client, `log` keeps the lines of log documents, `checkup` examines the account, `advice` says what to do about refusals.
"""
