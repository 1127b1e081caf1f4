"""The command line: one thin file per command over the public face of komd."""
