"""Reading and writing by index, by mask and by position; sorting and sets."""
