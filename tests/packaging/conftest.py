"""Lets the tests import the programs beside them, which are run as scripts too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
