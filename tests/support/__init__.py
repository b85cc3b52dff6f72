"""Real services for the tests: Azurite, PostgreSQL, MariaDB, MySQL, SQLite, and the flights of 2013.

Fixtures (tests/conftest.py), "session": once per test process, each xdist worker has its own:

===================  =======  ================================================================================
``azurite``          session  a running, private `tests.support.azurite.Azurite`
``container``        test     a fresh container name in it (`str`); not created, as a product would find it
``postgres_url``     session  `str`, a maintenance database (``postgresql+psycopg://...``), superuser;
                              max_connections 300, max_prepared_transactions 10, UTC
``postgres_server``  session  the `tests.support.postgres.PostgresServer` behind it (do not stop it)
``postgres_db``      test     `str`, URL of a fresh empty database, dropped after the test
``mariadb_url``      session  `str`, database ``mysql`` of a server (``mysql+pymysql://...``), root
``mariadb_server``   session  the `tests.support.mariadb.MariaDbServer` behind it (do not stop it)
``mariadb_db``       test     `str`, URL of a fresh empty database, dropped after the test
``mysql_server``     session  the `tests.support.mysql.MySqlServer`: MySQL proper; skips where there is none
``mysql_db``         test     `str`, URL of a fresh empty database, dropped after the test
``family_server``    test     parametrized over ``mariadb_server`` and ``mysql_server`` (do not stop it)
``family_db``        test     `str`, URL of a fresh empty database of ``family_server``
``sqlite_url``       test     `str`, ``sqlite:///...`` of a file that does not exist yet
``any_db``           test     parametrized over sqlite, postgres, mariadb, mysql: URL of a fresh empty database
``flights_year``     session  `flights.year()`: 336,776 rows, `list[dict[str, Any]]`
===================  =======  ================================================================================

Modules, for tests that need a server of their own (to stop, restart or configure it):

``tests.support.azurite``
    ``Azurite.start(*, memory=False) -> Azurite``, also a context manager. Attributes ``connection_string``,
    ``blob_endpoint``, ``port``, ``access_log`` (`Path`). Methods ``stop()``, ``kill()`` (SIGKILL), ``restart()``,
    ``suspend()``, ``resume()`` (SIGSTOP, SIGCONT), ``container_name() -> str``, ``connection_string_via(endpoint)``
    (for a proxy in front), ``mark() -> int``, ``requests(since=mark) -> list[Request]`` (method, path, query,
    status): every request that it answered since the mark, counted by its own access log.
``tests.support.postgres``
    ``PostgresServer.start(settings={"max_connections": "20"})``: ``url``, ``port``, ``stop()``, ``restart()``,
    ``new_database() -> str``, ``drop_database(url)``, ``execute(sql, database=None) -> rows``.
``tests.support.mariadb``, ``tests.support.mysql``
    ``MariaDbServer.start(settings={"max_connections": "20"})``, ``MySqlServer.start()``: as above, with ``is_mariadb``.
``tests.support.flights``
    ``year()``, ``january() -> list[dict[str, Any]]``, ``KEY``, ``key_of(row)``, ``create_table(engine)``,
    ``load(engine, table, rows)``, ``YEAR_ROWS``, ``JANUARY_ROWS``.
``tests.support.services``
    ``free_port()`` (given to one test process only), ``wait_until(condition, what)``, ``Service`` (a child process
    that dies with the test process), ``Unavailable`` (what the ``start`` methods raise without a server),
    ``OptionalService`` (the same of one that CI may lack too), ``unavailable(reason)``: skips on a laptop, fails
    where ``CI=true``.

Where a server comes from. Azurite: ``POLLER_TEST_AZURITE`` (path of its executable), ``.tools``, ``PATH``.
PostgreSQL: ``POLLER_TEST_POSTGRES_URL``, else a cluster of our own from local server binaries, else Docker.
MariaDB: ``POLLER_TEST_MARIADB_URL``, else likewise. MySQL: ``POLLER_TEST_MYSQL_URL``, else likewise; its binary is
``POLLER_TEST_MYSQLD`` (a path) or a ``mysqld`` in ``PATH`` whose ``--version`` is not MariaDB's. A MariaDB that
``POLLER_TEST_MYSQL_URL`` names is recognised by its version() and serves the tests of MariaDB. Where MySQL is not
available its tests skip, in CI too: Debian stable ships only MariaDB. It is the one exception to "CI has every server".

Where their files are: in memory (``/dev/shm``), if 8 GiB are free there and ``TMPDIR`` is not set.
"""
