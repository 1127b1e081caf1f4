"""The compiled core: everything that must be fast, and nothing else.

Plain functions over arrays. They know nothing of ids, files, parameters or threads: the caller
allocates every output, the module of a function makes its scratch buffers, and the function fills
both for one block of users or items. Any number of threads may call it at once for other blocks: the
GIL is released, and only read-only inputs are shared. So the answer never depends on the number of
threads or on block sizes. Failures are returned as status codes; the layers above turn them into messages. Every
function is tested in `tests/_core/`, in the file of its module's name, against a slow and obvious twin
(`tests/reference.py`) or an independent library. To move the core to another language, rewrite these files: nothing
else imports Numba.

    ids, pairs ──numbering, compressed_rows──▶ rows of items ──cooccurrence──▶ counts ──(kernels/)──▶ K
                                                                                       │
    a history ──────────────────solve──▶ weights on its items ───────────scoring───────┘
                                                                            │
                                                  top_n ◀── a strip of scores ──▶ auc
                                            (recommendations)             (evaluation)

    groups.py             arrays that belong together, under one name
    numbering.py          distinct ids, numbered as they arrive
    compressed_rows.py    sorting, transposing and thinning of compressed rows
    cooccurrence.py       how many users chose both i and j, for a block of items i
    exact_sums.py         sums over users or items that are the same in any order
    renumbered.py         rows and matrices after an update: copied under new numbers, changed rows inserted
    gather.py             entries that users and sums need from rows of K that are not stored
    factor_products.py    a low-rank correction of scores and entries; products with blocks of vectors
    row_products.py       its inner loop: products of four rows with four others, in registers
    llvm_vectors.py       what loops written in LLVM IR share
    strip_counting.py     K in strips of columns, counted and scored; rank_strip.py ranks the scores of one
    solve.py              the weights of each user: a convex problem on the simplex
    simplex.py            one such problem, by moves between two items; sweep.py its inner loop, four at a time
    simplex_faces.py      the same, face by face of the simplex: solves most problems; vector_sums.py its inner loops
    symmetric_part.py     submatrices of K: K_u from K, that of a face from K_u
    row_sums.py           weighted sums of rows, in registers: of scores, of gradients
    deflated_steps.py     CF-OMD's weights, on two simplexes, with the leading eigenvectors of K
    two_simplexes.py      the same by proximal gradients, for small λ_n; wide_products.py K times many vectors
    slim_descent.py       SLIM's regressions of each item on all others, by coordinate descent
    bpr_steps.py          BPR-kNN's gradient steps; splitmix.py the random numbers they are drawn with
    scoring.py            weighted sums of rows of an item-item matrix, dense or sparse
    top_n.py              the n best of a strip of scores, merged into the best so far
    auc.py                how test items rank among all others
    synthetic_choices.py  synthetic users who choose items by taste and popularity
    compile.py            how all of it is compiled; prefetch.py hints to the processor

Types: `int32` ids, `int64` pointers, `float32` matrices, `float64` weights, sums and scores.
Symbols are those of `docs/guide/maths.md`.
"""
