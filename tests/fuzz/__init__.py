"""Fuzzing of everything that reads a stranger's file: `make fuzz`."""
