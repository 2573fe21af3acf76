"""Word tables: words that the rules read, as data."""
