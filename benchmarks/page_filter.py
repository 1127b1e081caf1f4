"""The section of docs/results/performance.md on filters."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import markdown, wrapped

__all__ = ["section"]

FORMS = ("exact filter", "filter of low rank, dense", "filter of low rank, sparse")


def section(found: dict[str, Any]) -> str:
    """From benchmarks/filter.json."""
    eigenvectors = wrapped(f"""`python -m benchmarks.filter`, {found["machine"]}. Generated data, γ = ½, β = 0.2, λ = 1.
    **{found["rank"]} eigenvectors** of a sparse K, ours (block Krylov: {found["passes"]}, {found["products"]:,.0f}
    products with a vector, two threads) and SciPy's `eigsh` (Lanczos, tolerance 10⁻³, one pass per product,
    one thread):""")
    scoring = wrapped(f"""**Scoring**: the 100 best for {found["ranked_users"]:,} users, two threads, the best of three
    turns, and how many times the seconds of K as it is (rank {found["rank"]}):""")
    advice = wrapped("""A filter that is held dense, exact or not, costs about as much as K itself: the choice for up to
    20,000 items. Beside a sparse K the low-rank part costs one multiply-add per factor, item and user: use it for
    catalogues whose dense filter does not fit the memory.""")
    parts = ["## Filters\n", eigenvectors, _eigenvectors(found), scoring, _scoring(found), advice]
    return "\n".join([*parts, *_large(found)])


def _eigenvectors(found: dict[str, Any]) -> str:
    rows = []
    for one in found["eigenvectors"].values():
        cells = [f"{one['items']:,}", f"{one['nonzeros'] / 1e6:.1f}M", f"{one['seconds']:.1f}", f"{one['lanczos']:.1f}"]
        cells += [f"{one['lanczos_products']:,}", f"{one['largest']:.0f}", f"{one['last']:.2f}"]
        rows.append([*cells, f"{100 * one['off']:.2f} % (upper half {100 * one['off_upper_half']:.3f} %)"])
    head = ["items", "entries of K", "ours, s", "Lanczos, s", "its passes", "λ₁", "last λ"]
    return markdown([*head, "ours below Lanczos's, at most"], rows)


def _scoring(found: dict[str, Any]) -> str:
    rows = []
    for one in found["scoring"].values():
        seconds, plain = one["seconds"], one["seconds"]["K as it is"]
        held = f"{one['storage']}, {100 * one['density']:.2g} % full"
        forms = [f"{seconds[n]:.2f} ({seconds[n] / plain:.1f}×)" if n in seconds else "" for n in FORMS]
        rows.append([f"{one['items']:,}", held, f"{plain:.2f}", *forms])
    head = ["items", "K as it is", "its s", "exact filter", "low rank, written out dense"]
    return markdown([*head, "low rank beside a sparse K"], rows)


def _large(found: dict[str, Any]) -> list[str]:
    if "large" not in found:
        return []
    one = found["large"]
    alone, limit, most = one["alone"], one["most_multiply_adds"], max(one["seconds"], key=int)
    text = wrapped(f"""**A large catalogue**: {one["items"]:,} items, K {100 * one["density"]:.2g} % full and sparse;
    the 20 best for {one["users"]:,} users, two threads, the best of three turns. K alone takes {alone:.1f} s. The last
    column has the multiply-adds of the low-rank part (one per user, item and factor) in each second that it adds to
    K's, and their share of the most that the two cores do without memory ({limit / 1e9:.0f} billion a second; BLAS
    reaches {100 * one["blas_multiply_adds"] / limit:.0f} % of it in a product of two large squares).
    {most} eigenvectors of this K take {one["eigenvectors"]:.0f} s.""")
    rows = []
    for rank, seconds in one["seconds"].items():
        part, speed = (seconds - alone) / alone, one["multiply_adds"][rank]
        rows.append([rank, f"{seconds:.1f}", f"{seconds / alone:.2f}×", f"{part:.2f}×"])
        rows[-1].append(f"{speed / 1e9:.0f} billion a second, {100 * speed / limit:.0f} %")
    head = ["rank", "K and low-rank part, s", "beside K alone", "the part beside K alone", "multiply-adds of the part"]
    return [text, markdown(head, rows)]
