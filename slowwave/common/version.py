"""The version of the package: the wheel, the command line and the MCP server have it from here (docs/releasing.md)."""

__version__ = "0.1.0"
