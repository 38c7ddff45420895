"""The agent: reads the GPUs and engines of one host, reports them, and runs the units that the controller wants."""
