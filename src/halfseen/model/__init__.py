"""What a detector has learnt, and its file."""
