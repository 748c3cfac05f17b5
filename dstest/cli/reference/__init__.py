"""`docs/reference/`: what commands, plug-ins and models say of themselves, as pages."""
