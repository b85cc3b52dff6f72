"""What poller does in MySQL and MariaDB beside reading."""
