"""One engine dialect a module: which families mean what."""
