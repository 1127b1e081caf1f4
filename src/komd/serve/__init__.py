"""A saved model as an HTTP service: `komd serve`.

    starting it
        server_process.py         starts it all: one worker or several, and the learner
        app.py                    puts the parts of a worker together
        serve_settings.py         the settings and limits, checked once
        serve_config.py           the same as a TOML file
        process_signals.py        SIGHUP, and the end of the parent
        background_tasks.py       what a worker does beside answering
        prometheus.py             the metrics
        tracing.py                the spans of a trace
        log_floods.py             a line that repeats is logged once in a while
    who may ask
        connections.py            disconnects clients that send or read too slowly
        access.py                 tokens, hosts, origins, bodies; headers of every response
        token_file.py             tokens, replaced while in use
        roles.py                  which role a request takes
        rate_limits.py            requests a second, over all workers
        forwarded.py              the client behind a proxy
    requests and responses
        api.py                    the addresses under /v1
        schemas/                  requests and responses as types
        posted_values.py          weights and times as they are posted
        id_text.py                ids as text
        service.py                from a request to its response
        response_rows.py          lists, items and histories as rows
        json_output.py            answers, long ones in parts
        error_answers.py          errors as answers
        path_names.py             no folders in messages
        static_pages.py           the page, whose parts are in static/
    work
        request_queue.py          a thread and a bounded queue for each kind of work
        fair_jobs.py              which client is next
        request_context.py        who asks, and until when
        request_cost.py           how much work a request is
        large_bodies.py           large bodies are parsed in a thread
    models
        model_snapshot.py         one model with its names: lists, reasons, similar items
        hot_reload.py             the model in use, and how another replaces it
        model_size.py             unless it has shrunk
        model_arms.py             two models side by side: which of them serves a user
        experiment_state.py       what was decided of the candidate
        learner.py                learns stored events, unlearns forgotten users
        learner_process.py        its process, restarted if it fails
        store_updates.py          from stored events to updates of a model
        publication.py            the folder of published models
    items
        item_names.py             names and further columns of --items
        name_search.py            items by name
        name_words.py             words by prefix and edit distance
        item_attributes.py        the columns of --items as values
        item_filters.py           conditions on them
        item_availability.py      which items are available now
        candidate_masks.py        which items may be in a list
        list_quotas.py            how many of them for each value
    events
        event_store.py            live histories: one writer, numbered commits
        event_records.py          what goes in and comes out
        event_tables.py           the tables, and changes of their format
        event_databases.py        SQLite or PostgreSQL
        postgresql_connection.py  gives up on a silent server
        store_circuit.py          refuses at once while the store does not answer
        event_log.py              what the events of a pair come to
        event_types.py            what types of events mean
        user_row.py               the model's history and posted events as one
        recommendation_id.py      signed ids of lists
        report_counts.py          what lists led to
        event_erasure.py          forgotten ids leave the files
        forget_key.py             the key of the marks of forgotten users
        forgotten_users.py        who of a model was forgotten

A request takes one snapshot of the model and keeps it to its end, so a new model may be loaded at any moment. Whatever
solves, searches or waits for the database runs in threads; the event loop only reads and writes.
"""
