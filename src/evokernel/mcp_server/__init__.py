"""Tools for agents over the Model Context Protocol: tasks, verification, profiles and memory."""
