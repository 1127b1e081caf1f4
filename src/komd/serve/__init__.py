"""A saved model as an HTTP service: `komd serve`.

    connections.py      disconnects clients that send or read too slowly, before anything is parsed
    access.py           who may ask, how much may be sent, headers of every response
    token_file.py       tokens, replaced while in use       roles.py          which role a request takes
    forwarded.py        the client behind a proxy           rate_limits.py    requests a second, over all workers
    api.py              the addresses under /v1             schemas.py        requests and responses as types
    request_queue.py    the threads that do the work, each with a bounded queue     fair_jobs.py      who is next
    request_cost.py     how much work a request is          request_context.py    who asks, and until when
    large_bodies.py     large bodies are read in a thread   json_output.py    answers, long ones in parts
    service.py          a user's history = the model's + the store's, unless forgotten
    hot_reload.py       the model in use, and how another replaces it               model_size.py     unless it shrank
    model_arms.py       two models side by side: which of them serves a user        experiment_state.py   decisions
    model_snapshot.py   one model with its names: lists, reasons, similar items       name_search.py    items by name
    name_words.py       the words of names: found by prefix and by edit distance
    candidate_masks.py  which items may be in a list        list_quotas.py    how many of them for each value
    item_filters.py     conditions on attributes            item_attributes.py    the columns of --items as values
    item_availability.py    which items are available now
    event_store.py      live histories                      event_databases.py    SQLite or PostgreSQL
    event_tables.py     what the store's tables hold        event_erasure.py      forgotten ids leave the files
    forget_key.py       the key of the marks of forgotten users, in a file            forgotten_users.py    who they are
    store_circuit.py    refuses at once while the store does not answer
    postgresql_connection.py                                gives up on a silent server
    event_log.py        what events of a pair come to       event_types.py        what types of events mean
    recommendation_id.py  signed ids of lists               report_counts.py      what lists led to
    server_process.py   starts it all                       process_signals.py    SIGHUP, and the end of the parent

A request takes one snapshot of the model and keeps it to its end, so a new model may be loaded at any moment. Whatever
solves, searches or waits for the database runs in threads; the event loop only reads and writes.
"""
