"""Creates a hard link to another user's file."""

import os

from hostile_tools import must_fail, place

must_fail("the secret has another name", os.link, place("home/.keys/secret"), "mine")
must_fail("the bank has another name", os.link, place("bank.db"), "memory")
