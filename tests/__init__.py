"""Tests of halfseen; the folders mirror those of src/halfseen."""
