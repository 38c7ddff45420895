"""Cost, pure: holdings and token usage to cost per million tokens, with its state and its sources."""
