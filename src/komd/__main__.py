"""`python -m komd` is `komd`."""

from komd.cli.main import run

if __name__ == "__main__":
    run()
