"""Filters: which texts are refused before they become knowledge, and what is removed from the others.

- `redaction`: secrets
- `injection`: orders to the reader of a text
- `noise`: messages that are refused, with filter and reason
- `novelty`: surprise and repetition
- `durability`: output, listings, code, small talk and requests, which nobody needs in a month
"""
