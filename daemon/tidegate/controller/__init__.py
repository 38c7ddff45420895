"""The controller: what it needs of the world (ports), what it does every tick, and the wiring of both."""
