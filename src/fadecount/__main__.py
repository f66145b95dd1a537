"""``python -m fadecount`` is the command ``fadecount``."""

import sys

from fadecount.cli.main import main

sys.exit(main())
