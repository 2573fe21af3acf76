"""Measured claims: speed and recall, beside a peer or a physical limit."""
