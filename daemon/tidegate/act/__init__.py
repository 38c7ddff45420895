"""Change the world: start and stop engine units on this host."""
