"""What a model reads and fills in: one template per prompt, and the response models."""
