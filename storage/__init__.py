"""The tables of a memory in LanceDB, and their history. From what is stored to what may happen to it:

Tables
- `tables`: every table with its columns, declared in `slowwave/common/tables.toml`
- `rows`: frames on their way into and out of tables; ids of runs

Namespaces, commits and snapshots
- `connection`: the database directory of a namespace, on a disk or on object storage
- `lease`: the one row that says which version of each table counts, and who may write
- `store`: opens and makes namespaces; begins commits and snapshots
- `transactions`: one commit
- `row_steps`: the rows that commits wrote, for what is in memory here and in other processes, and to join small files
- `drafts`: a commit whose changes wait for a person
- `snapshots`: reads of one commit
- `changes`: which rows a run changed
- `undo`: takes a run back

Reads that must be fast
- `search`: nearest vectors and best words in one table
- `warm`: the tables of one state, for the query path
- `residents`, `columns`, `vectors`: tables, their rows, vectors and words in memory
- `following`: what is in memory goes with the commits
- `handles`: open tables, at the newest commit or at an earlier one

Beside the history
- `paid_answers`: answers of models, which no undo removes
- `quotations`: what nobody has read yet
- `upkeep`: compaction and retention; tables rewritten without what is forgotten, or with vectors of another model
- `migrations`: columns of a newer slowwave, and indexes that a table has grown into

Damage
- `doctor`: looks for damage, and repairs it
- `salvage`: what is left of tables with broken files
- `disk`: files and versions on a disk, and its errors in plain words
"""
