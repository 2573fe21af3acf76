"""The graph: relations as arrays, communities, links and walks."""
