"""Expression lists as drawings: `draw`, with a layout of its own, and the same graph as text for DOT and Mermaid."""
