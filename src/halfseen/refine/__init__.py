"""What goes beyond the paper: refinements of kept detections."""
