"""Images, annotations and results: data sets, their readers and writers, and drawn scenes."""
