"""What a nightly run does."""
