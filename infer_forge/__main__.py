"""`python -m infer_forge` is the command `infer-forge`."""

from infer_forge.cli.main import main

if __name__ == "__main__":
    main()
