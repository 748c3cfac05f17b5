"""Writes the pages:

python -m dstest.cli.reference docs/reference
"""

from __future__ import annotations

import sys
from pathlib import Path

from dstest.cli.reference.pages import PAGES

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, page in PAGES.items():
    (folder / name).write_text(page(), encoding="utf-8")
