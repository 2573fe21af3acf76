"""Ingestion: files become messages.

- `formats`: what kind of file is it?
- `transcripts`: JSON of a conversation becomes messages
- `conversations`: messages in order, each once
- `documents`: passages of documents and pasted texts
- `windows`: which messages are extracted in one call?
- `sessions`: which conversations are due for a summary?
"""
