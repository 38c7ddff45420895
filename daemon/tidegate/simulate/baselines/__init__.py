"""Other systems' algorithms with their published defaults, to be compared with; sources are named in each."""
