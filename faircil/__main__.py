"""``python -m faircil``."""

import sys

from faircil.cli import main

sys.exit(main())
