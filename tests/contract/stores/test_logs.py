"""The laws of log documents, in every store. An append blob is full after three lines here (see `conftest`)."""

from poller.contract.stores.logs import *  # noqa: F403
