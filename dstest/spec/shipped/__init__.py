"""Specifications that come with dstest, a file each; its name is that of the specification."""
