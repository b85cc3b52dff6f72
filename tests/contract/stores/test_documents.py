"""The laws of documents, in every store."""

from poller.contract.stores.documents import *  # noqa: F403
