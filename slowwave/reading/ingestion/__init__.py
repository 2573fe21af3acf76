"""Ingestion: files become messages.

- `formats`: what kind of file is it?
- `transcripts`: JSON of a conversation becomes messages
- `chat_exports`: Claude.ai and Slack
- `agent_sessions`: Codex and Gemini CLI
- `parsers`: the table of formats, and which parser reads which
- `conversations`: messages in order, each once
- `documents`: passages of documents, and documents as wholes
- `windows`: which messages are extracted in one call?
- `sessions`: which conversations are due for a summary?
"""
