"""What people decide, add and forget."""
