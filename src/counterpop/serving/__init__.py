"""A run behind HTTP: the model as a value, the application around it, and its page."""
