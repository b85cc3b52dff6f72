"""State in Azure Blob Storage or Azurite. `store.BlobStore` is the store; the other modules are its parts."""
