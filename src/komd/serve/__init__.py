"""A saved model as an HTTP service: `komd serve`.

    protocol.py   slow and endless requests end here, before anything is parsed
    guard.py      who may ask, how much may be sent, what every answer carries
    api.py        the addresses under /v1          schemas.py   what goes in and comes out
    service.py    a person = the model's history + the store's, minus what was forgotten
    live.py       the model in use, and how another takes its place
    shelf.py      one model with its names: lists, reasons, similar items      search.py   items by name
    events.py     live histories; databases.py     SQLite or PostgreSQL

A request takes the model once and keeps it to its end, so a new model may come in at any moment. Whatever solves,
searches or waits for the database runs in threads; the event loop only reads and writes.
"""
