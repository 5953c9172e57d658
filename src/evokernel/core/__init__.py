"""Records, plug-in interfaces, settings, errors and the run folder. Imports nothing from the rest of the package."""
