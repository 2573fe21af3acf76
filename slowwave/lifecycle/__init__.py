"""Maintenance: use, scores, what fades, what is put right, what is forgotten, and the gate."""
