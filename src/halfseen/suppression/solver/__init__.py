"""The exact solver of the covering problem."""
