"""The laws that hold while others do the same at the same moment, in every store."""

from poller.contract.stores.races import *  # noqa: F403
