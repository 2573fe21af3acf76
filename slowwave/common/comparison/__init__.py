"""Comparison: do two statements say the same?

- `guards`: what must agree before two statements are merged without a model
- `similarity`: how similar two texts or vectors are, and all pairs that are similar, without comparing all
"""
