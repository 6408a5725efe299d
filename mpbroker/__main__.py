"""`python -m mpbroker` is the `mpbroker` command."""

import sys

from mpbroker.cli.main import main

sys.exit(main())
