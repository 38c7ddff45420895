"""The decision core, pure: demand, guards, victims, placement, and `plan()`, the only door."""
