"""MariaDB and MySQL: all that poller knows of them alone."""
