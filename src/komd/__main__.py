"""`python -m komd` is `komd`."""

from komd.cli import interrupt

__all__ = ["run"]


def run() -> None:
    """What the `komd` script calls: Ctrl-C is listened to before anything slow is imported."""
    interrupt.watch()
    try:
        from komd.cli import main
    except BaseException:
        if interrupt.heard():
            interrupt.leave()
        raise
    main.run()


if __name__ == "__main__":
    run()
