"""Diagnostics: the reasons for derivatives that are zero, missing or not finite."""
