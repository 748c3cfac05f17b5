"""`python -m dstest` is the same as `dstest`."""

from dstest.cli.app import main

if __name__ == "__main__":
    main()
