"""Emitters: the text of functions of the loop IR for a target."""
