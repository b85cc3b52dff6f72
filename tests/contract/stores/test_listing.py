"""The laws of listings, in every store that has them."""

import pytest

from poller.contract.stores.listings import *  # noqa: F403

pytestmark = pytest.mark.parametrize("place", ["memory", "blob", "table", "s3", "cosmos"], indirect=True)
