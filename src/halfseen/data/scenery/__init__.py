"""The parts of the built-in scenes: shapes, objects, occluders, backgrounds, layout and finish."""
