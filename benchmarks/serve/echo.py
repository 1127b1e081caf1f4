"""The least a FastAPI service can do: parse and check the same body, and return a list of the same length."""

from __future__ import annotations

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Ask(BaseModel):
    """What comes in."""

    user_id: str | None = None
    history: list[str | int] | None = None
    n: int = 10


class Line(BaseModel):
    """One line of what goes out."""

    item_id: str
    rank: int
    score: float


class Answer(BaseModel):
    """What goes out."""

    items: list[Line]


app = FastAPI()


@app.post("/v1/recommend")
async def recommend(ask: Ask) -> Answer:
    """The first items of the history, returned."""
    given = (ask.history or [])[: ask.n]
    return Answer(items=[Line(item_id=str(item), rank=k, score=0.5) for k, item in enumerate(given, 1)])


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", http="httptools", loop="uvloop", access_log=False)
