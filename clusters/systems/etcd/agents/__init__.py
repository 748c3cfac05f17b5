"""Programs that work on the files of a member, on its node."""
