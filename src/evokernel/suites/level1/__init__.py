"""A hundred single operators, a folder for each kind."""
