"""Timer functions, indexed and invoked as the Functions host does it."""
