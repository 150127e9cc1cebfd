"""Large collections of photographs: where they lie, and runs over them that survive a kill."""
