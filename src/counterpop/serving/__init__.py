"""A run served over HTTP: the model as a value, the application around it, and the dashboard."""
