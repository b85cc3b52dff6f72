"""SQL Server: all that poller knows of it alone. Experimental: tested by the text of its SQL, on no server."""
