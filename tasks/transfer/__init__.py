"""What comes from other memories, goes out, or moves to another model."""
