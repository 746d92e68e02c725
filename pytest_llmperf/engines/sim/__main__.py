"""``python -m pytest_llmperf.engines.sim MODEL [arguments]``."""

import sys

from pytest_llmperf.engines.sim.server import main

sys.exit(main())
