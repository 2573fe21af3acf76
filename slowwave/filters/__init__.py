"""Gates: checks that refuse texts before they become knowledge."""
