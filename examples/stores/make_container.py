"""Makes the database and the container of cosmos.toml, in the account whose connection string is in COSMOS."""

import os

from azure.cosmos import CosmosClient, PartitionKey

client = CosmosClient.from_connection_string(os.environ["COSMOS"], enable_endpoint_discovery=False)
database = client.create_database_if_not_exists("poller")
database.create_container_if_not_exists("db-state", PartitionKey(path="/app"))
