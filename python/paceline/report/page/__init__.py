"""The file that a report is: a template, its style and its script."""
