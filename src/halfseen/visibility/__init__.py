"""Which blocks of a window are visible: the exact maximum of Eqn 1, on arrays alone."""
