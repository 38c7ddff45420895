"""The vocabulary: frozen values that every other package speaks in. Standard library only."""
