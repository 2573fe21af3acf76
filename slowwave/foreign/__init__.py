"""What other memory systems export: mem0, Graphiti and Zep, the reference memory server of MCP."""
