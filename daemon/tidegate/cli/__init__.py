"""The command line: one module a command group; a role is imported only when it is asked for."""
