"""Pictures, plots and reports."""
