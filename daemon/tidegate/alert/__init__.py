"""Alert rules, pure: windows to alert states and notices."""
