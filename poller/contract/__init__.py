"""The laws of this library's ports, as tests for a person who implements one.

They need pytest, which the library itself does not: only tests import this package.
"""

import pytest

pytest.register_assert_rewrite("poller.contract.stores")
