"""What others read from us: metric families, collectors, pages."""
