"""Drawings of expression lists: `draw` with its own layout, and graphs as text for DOT and Mermaid."""
