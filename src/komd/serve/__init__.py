"""A saved model as an HTTP service: `komd serve`.

    connections.py      disconnects clients that send or read too slowly, before anything is parsed
    access.py           who may ask, how much may be sent, headers of every response
    api.py              the addresses under /v1             schemas.py        requests and responses as types
    request_queue.py    the threads that do the work, each with a bounded queue
    service.py          a user's history = the model's + the store's, unless forgotten
    hot_reload.py       the model in use, and how another replaces it
    model_snapshot.py   one model with its names: lists, reasons, similar items       name_search.py    items by name
    name_words.py       the words of names: found by prefix and by edit distance
    event_store.py      live histories                      event_databases.py    SQLite or PostgreSQL
    event_tables.py     what the store's tables hold        event_erasure.py      forgotten ids leave the files

A request takes one snapshot of the model and keeps it to its end, so a new model may be loaded at any moment. Whatever
solves, searches or waits for the database runs in threads; the event loop only reads and writes.
"""
