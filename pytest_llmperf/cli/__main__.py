"""``python -m pytest_llmperf.cli``."""

import sys

from pytest_llmperf.cli import main

sys.exit(main())
