"""Application: claims become candidates, candidates become facts, contradictions are settled."""
