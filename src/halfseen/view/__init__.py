"""What people look at: pictures of detections, in one look."""
