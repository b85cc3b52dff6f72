"""MariaDB where others write too: a Galera cluster's other nodes, a replica's primary. Only the heuristic is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from poller.errors import ConfigError
from tests.integration.bounds.tables import add, freshly, ids, make, source
from tests.support.mariadb import MariaDbServer
from tests.support.services import Unavailable, free_port, wait_until

PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so")


def galera() -> MariaDbServer:
    """The first node of a cluster. Debian's server brings the library along."""
    library = next((path for path in PROVIDERS if Path(path).exists()), None)
    if library is None:
        raise Unavailable(f"no Galera: none of {', '.join(PROVIDERS)} is here; on Debian it is in galera-4")
    listens = f"gmcast.listen_addr=tcp://127.0.0.1:{free_port()};ist.recv_addr=127.0.0.1:{free_port()}"
    return MariaDbServer.start(
        {
            "wsrep_on": "ON", "wsrep_provider": library, "wsrep_cluster_address": "gcomm://", "binlog_format": "ROW",
            "wsrep_provider_options": listens, "wsrep_node_address": "127.0.0.1",
        }
    )  # fmt: skip


@pytest.mark.soak
def test_in_a_galera_cluster_only_the_heuristic_is_left() -> None:
    """Transactions that are open on other nodes are in no list of this one."""
    with galera() as node:
        assert node.execute("show status like 'wsrep_cluster_status'") == [("wsrep_cluster_status", "Primary")]
        url = node.new_database()
        make(url)
        add(url, 1)
        with source(url, settle="0s") as reader:
            wait_until(lambda: ids(reader) == [1], "the row is old enough")
            bound = reader.bound()
        assert bound.kind == "heuristic"
        assert "other nodes' transactions cannot be seen" in str(bound.reason)
        with source(url, bound="exact") as reader, pytest.raises(ConfigError, match="cluster") as error:
            reader.page(None, 1)
        assert error.value.key == "bound"


@pytest.mark.soak
def test_a_replica_that_begins_to_write_holds_the_bound() -> None:
    """They write their primary's timestamps, long after these were taken."""
    with (
        MariaDbServer.start({"log_bin": "primary", "server_id": "1"}) as primary,
        MariaDbServer.start({"server_id": "2"}) as replica,
    ):
        name = replica.new_database().rpartition("/")[2]
        url = replica.url.replace("/mysql", f"/{name}")
        make(url)
        add(url, 1)
        with source(url) as before, source(url) as later:
            assert ids(freshly(before)) == [1]
            assert before.bound().kind == "observed"
            replica.execute(
                f"change master to master_host = '127.0.0.1', master_port = {primary.port}, master_user = 'root'"
            )
            replica.execute("start slave")
            primary.execute(f"create database {name}_more")
            made = f"select count(*) from information_schema.schemata where schema_name = '{name}_more'"
            wait_until(lambda: replica.execute(made) == [(1,)], "the replica has applied something")
            add(url, 2)
            bound = freshly(before).bound()
            assert "a replica's thread" in str(bound.held_by)
            assert "read from the primary" in str(bound.reason)
            assert ids(before) == [1], "what cannot be known any more is not read"
            assert later.bound().kind == "heuristic"
            assert "replica thread" in str(later.bound().reason)
            replica.execute("stop slave")
            assert 2 in ids(freshly(before))
