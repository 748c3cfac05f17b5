"""The formats that CI servers read, each once. Nothing here knows what a run is."""
