"""One call of a model as a task of its own: calls noted, ranked, and written down with the sizes and inputs they had."""
