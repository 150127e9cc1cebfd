"""What runs models over data sets."""
