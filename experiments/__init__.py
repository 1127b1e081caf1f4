"""The experiments of the paper: one file for each table and figure. README.md maps them to their commands."""
