"""Item-item matrices: held dense, sparse or streamed, with low-rank parts, and how they are built."""
