"""The compiled core: everything that must be fast, and nothing else.

Plain functions over arrays. They know nothing of ids, files, parameters or threads: the caller
allocates every output and hands in scratch space, a function fills them for one block of users or
items, and any number of threads may call it at once for other blocks (the GIL is released, nothing
is shared but read-only inputs). So the answer never depends on threads or block sizes. Failures
leave as status codes; the layers above word them. A function whose docstring names a twin is tested
against that slow, obvious one; the others are tested through the layer that calls them, against
`tests/reference.py` or an independent library. To move the core to another language, rewrite these
files: nothing else imports Numba.

    ids, pairs ──numbering, csr──▶ rows of items ──gram──▶ co-occurrence ──(kernels/)──▶ K
                                                                               │
    a history ──────────────solve──▶ weights on its items ───────score─────────┘
                                                                │
                                          topn ◀── a strip of scores ──▶ ranks
                                    (recommendations)             (evaluation)

    numbering.py  distinct ids, numbered as they arrive
    csr.py        sorting, transposing and thinning of compressed rows
    gram.py       how many users chose both i and j, for a block of items i
    gathered.py   what people need of rows of K that are counted and forgotten
    lowrank.py    what a filter of low rank takes from scores and entries; products with blocks of vectors
    strips.py     K in strips of columns, counted and scored; fused.py all that is done with one
    solve.py      the weights of each user: a convex problem on the simplex; two_simplexes.py CF-OMD's, on two
    descent.py    SLIM's regressions of each item on all others, by coordinate descent
    sgd.py        BPR-kNN's gradient steps, and the chance they are drawn with
    simplex.py    one such problem; sweep.py its inner loop, four items at a time
    score.py      weighted sums of rows of an item-item matrix, dense or sparse
    topn.py       the n best of a strip of scores, merged into what was best so far
    ranks.py      where the test items stand among all others
    choose.py     made-up users who choose items by taste and popularity
    compile.py    how all of it is compiled; prefetch.py hints to the processor

Types: `int32` ids, `int64` pointers, `float32` matrices, `float64` weights, sums and scores.
Symbols are those of `docs/guide/maths.md`.
"""
