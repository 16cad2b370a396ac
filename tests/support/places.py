"""Where the repository and the plugins under test are."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: The plugins under test.
OURS = os.path.abspath(os.environ.get("PATCHBAY_BIN", os.path.join(ROOT, "build/release/bin")))
