"""Tidegate: what a million tokens cost, and how many GPUs they need."""

__version__ = "0.1.0"
