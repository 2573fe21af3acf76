"""The query path: how a memory is read. Nothing here writes, but for logged access events and answers of `ask`.

From a question to an answer
- `recaller`: the path of a question; it calls most of the next
- `question`: a query with its vector, the time and the relation that it asks for, and the facts that may answer it
- `search`: messages by words, facts by meaning, in one order
- `graphs`: relations in memory
- `walks`: which relations lead on from the question
- `search_results`: the final order of facts with names and sources, and passages
- `context`: the block of text for the prompt of another model
- `ask`: a model answers from that block
- `use`: which facts and entities reads returned, and what that weighs
- `loop`: one event loop, so that plain calls read in parallel; what is read once
- `order`: from the scores of search to the order of recall

What is known of one thing
- `facts`: facts with names and messages, documents and conversations
- `entities`: entities by name and meaning
- `history`: earlier versions, chains, the archive, and `why`
- `doubts`: conflicts and pending beliefs
- `groups`: aspects of a life, and communities of entities

The memory as a whole
- `overview`: its state and cost; `report`: its health, similar observations, and what to split
- `proposals`: what waits for a person
- `atlas`: the data of the atlas
- `export`: everything in files, and how they are read back; `readable_exports`: the graph, and a page for each entity
"""
