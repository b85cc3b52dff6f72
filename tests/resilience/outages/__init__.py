"""The storage service and the database go away in mid-drain, and come back."""
