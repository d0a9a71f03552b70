"""`python -m agentprof` is the console script."""

from __future__ import annotations

import sys

from agentprof._cli import main

sys.exit(main())
