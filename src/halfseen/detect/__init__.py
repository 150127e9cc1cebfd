"""The detector of the paper: from an image to candidates, suppressed."""
