"""Tell people: one channel a module."""
