"""Parts of a specification of consensus: terms with their votes and leaders, and the logs."""
