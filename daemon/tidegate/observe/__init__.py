"""Read the world: GPUs and engines. Adapters that never raise for what they could not read."""
