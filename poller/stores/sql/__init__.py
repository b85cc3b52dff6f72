"""State in a SQL database: SQLite (the embedded default), PostgreSQL, MySQL, MariaDB, SQL Server or Oracle."""
