"""What a plug-in in a file of one's own may build on; `dstest new` writes files that do."""
