"""The skeletons that `dstest new` writes, as files that run: the names in them are placeholders."""
