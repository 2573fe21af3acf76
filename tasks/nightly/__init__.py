"""What a nightly run does; `ingest` uses the parts that a first look needs."""
