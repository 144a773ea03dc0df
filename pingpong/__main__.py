"""`python -m pingpong` equals `pingpong`."""

import sys

from pingpong.cli import main

if __name__ == "__main__":
    sys.exit(main())
