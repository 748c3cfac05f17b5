"""A history file, in any of the formats that are read, to the answer about it: `dstest check`."""
