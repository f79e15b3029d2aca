"""Loops of a list made shorter: their bodies, what all their steps compute alike, and results that nobody reads."""
