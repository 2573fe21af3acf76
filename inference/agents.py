"""Command-line agents that a person already pays for, as language models: Claude Code, Codex, Gemini CLI."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: its provider name, its program on the PATH, its name for people, and how one logs in to it."""

    provider: str
    program: str
    label: str
    login: str


AGENTS: dict[str, Agent] = {
    agent.provider: agent
    for agent in (
        Agent("claude-code", "claude", "Claude Code", "run claude, then /login"),
        Agent("codex", "codex", "Codex", "codex login"),
        Agent("gemini-cli", "gemini", "Gemini CLI", "run gemini, then /auth"),
    )
}
