"""Intake: files become messages, cleaned and redacted."""
