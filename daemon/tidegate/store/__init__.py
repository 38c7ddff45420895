"""Remember: the only SQL of the program, and the embedded Postgres."""
