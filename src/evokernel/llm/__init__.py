"""Talking to language models: a client for OpenAI-compatible services, prompt files, and files read out of replies."""
