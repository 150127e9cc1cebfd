"""Learning of mask heads."""
