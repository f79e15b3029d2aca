"""How a transform is called: which arguments it differentiates, and what it hands back."""
