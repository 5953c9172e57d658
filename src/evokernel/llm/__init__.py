"""Language models: a client for OpenAI-compatible services, local models, prompt rendering, and extraction of files from replies."""
