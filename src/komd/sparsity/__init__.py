"""Sparsity analysis: how full the kernel of a data set will be, why, and what it will cost, before it is computed.

found = komd.sparsity.analyze(data)
found                            # text; .to_json(), .to_markdown(), .report("folder")
komd.sparsity.compare({"plays": plays, "films": films}).report("folder")
"""

from __future__ import annotations

from komd.sparsity.analysis import Analyses, Analysis, analyze, compare

__all__ = ["Analyses", "Analysis", "analyze", "compare"]
