"""Reading: what a window of messages says, read by rules, and which entities it means."""
