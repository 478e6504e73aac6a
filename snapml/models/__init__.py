"""Models in files and in the forms of other systems."""
