"""dstest from within other people's tests: a plugin of pytest."""
