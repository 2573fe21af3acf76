"""Comparison: do two statements say the same?

- `normal_forms`: statements as ordered lines of stems
- `guards`: what must agree before two statements are merged without a model
- `similarity`: how similar two texts or vectors are, and all pairs that are similar, without comparing all
"""
