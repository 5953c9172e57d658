"""Where verification happens: on this machine, or wherever a command leads."""
