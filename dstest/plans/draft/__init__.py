"""New plans: what the registry, a repository and a change say is written; the rest is marked."""
