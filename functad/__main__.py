"""The entry point of `python -m functad`: the tour."""

import sys

from functad.tour import main

if __name__ == "__main__":
    sys.exit(main())
