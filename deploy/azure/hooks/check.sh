#!/bin/sh
# After `azd deploy`: `poller check`, from this machine, as whoever is signed in. It changes nothing, and an error that it
# finds ends the step.
#
# It needs: the command `poller` with the database's driver; `az login` as a member of the operators' group
# (a new role takes some minutes); the settings that poller.toml names, such as ORDERS_DB_URL, in the environment; a way to
# the database and to the storage account. Where that is not so: azd env set POLLER_CHECK skip
set -eu

if [ "${POLLER_CHECK:-}" = skip ]; then
    echo "poller check: skipped, since POLLER_CHECK is skip"
    exit 0
fi
if [ "${POLLER_PRIVATE_NETWORK:-}" = true ] && [ "${POLLER_CHECK:-}" != run ]; then
    echo "poller check: skipped, since the storage account has no public endpoint. Inside the network: azd env set POLLER_CHECK run"
    exit 0
fi
if ! command -v poller >/dev/null; then
    echo "poller check: there is no command poller here. Install it, or: azd env set POLLER_CHECK skip" >&2
    exit 1
fi

# As yourself: not by the app's identity, which only the app has.
unset AzureWebJobsStorage AzureWebJobsStorage__credential AzureWebJobsStorage__clientId
export AzureWebJobsStorage__blobServiceUri="${POLLER_BLOB_ENDPOINT:?is not set: azd env refresh}"
export AzureWebJobsStorage__queueServiceUri="${POLLER_QUEUE_ENDPOINT:?is not set: azd env refresh}"
export AzureWebJobsStorage__tableServiceUri="${POLLER_TABLE_ENDPOINT:?is not set: azd env refresh}"
exec poller check
