"""Bill files: one format a module, from rows of text to charges. What cannot be taken is quarantined, never dropped."""
