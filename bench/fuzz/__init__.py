"""Fuzzing: damaged and hostile input for every parser; `python -m bench.fuzz`, and a small part of it in the suite."""
