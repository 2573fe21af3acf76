"""The model seats: texts to vectors, prompts to validated answers."""
