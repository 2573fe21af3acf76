"""Sentence-embedding models and language models: texts to vectors, prompts to validated answers."""
