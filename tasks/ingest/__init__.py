"""From files to facts. In the order in which they run:

- `inbox`: files that arrived in a folder
- `sources`: which files can be read, and how
- `reading`: files become batches of messages
- `admission`: messages are embedded, filtered and stored
- `gating`: what the filters remember between batches
- `extraction`: pending messages go to a model or to the rules
- `identities`: who speaks, and which entity a name means
- `candidate_rows`: statements become rows of candidates
- `statements`: the same for what somebody states outside a conversation
- `surroundings`: which stored facts may matter to candidates
- `application`: candidates become facts, and what was read replaces the quotations of the same messages
- `artifacts`: documents
- `sessions`: summaries of conversations
"""
