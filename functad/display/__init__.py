"""The ground that all displays stand on: markup and style for notebooks, text for terminals, and how amounts are put.

Nothing here knows what is shown. Objects import it when they are displayed, so that `import functad` does not pay for it.
"""
