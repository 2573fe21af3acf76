"""What comes from other memories, comes back, or moves to another embedding model:

- `imports`: exports of other memory systems become candidates
- `own_exports`: what `slowwave export` wrote
- `reembedding`: which text the vector of a row stands for, and vectors of another embedding model
"""
