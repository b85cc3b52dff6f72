"""The laws of a `StateStore`: what leases and checkpoints rest on.

A test module that imports them all, and has a fixture `place`, tries a store under them:

    from poller.contract.stores import *

    @pytest.fixture
    def place():
        server = ...
        return Place(lambda: MyStore(server), delete=server.delete)
"""

from poller.contract.stores.documents import *  # noqa: F403
from poller.contract.stores.listings import *  # noqa: F403
from poller.contract.stores.logs import *  # noqa: F403
from poller.contract.stores.place import Place as Place
from poller.contract.stores.place import store as store
from poller.contract.stores.races import *  # noqa: F403
