"""A scoring service that takes up a new correction without a restart.

    pip install propcal fastapi uvicorn
    MODEL=model.json uvicorn service:app

Replace the model file as a whole (`mv new.json model.json`; `propcal fit` does it that
way). The next request uses the new one. If it cannot be read, the old correction stays
in use and /health says why."""

import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from propcal import Correction
from propcal.errors import PropcalError

app = FastAPI()
state: dict[str, Any] = {"version": None, "correction": None, "problem": None}


class Person(BaseModel):
    score: float = Field(strict=True)  # true and "0.3" are no scores
    columns: dict[str, str | bool | int | float | None]


def current() -> Correction:
    """The correction in the model file, read again whenever the file was replaced."""
    path = Path(os.environ.get("MODEL", "model.json"))
    version = None
    try:
        found = path.stat()
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        if version != state["version"]:
            state.update(correction=Correction.load(path), problem=None)
    except (PropcalError, OSError) as error:
        if state["correction"] is None:
            raise
        state["problem"] = str(error)
    state["version"] = version
    return state["correction"]


@app.post("/score")
def score(person: Person) -> dict[str, Any]:
    correction = current()
    unknown = person.columns.keys() - {*correction.reads, *correction.not_read}
    if (
        unknown
    ):  # score_one has options of its own, such as unseen, which are not for clients
        raise HTTPException(422, f"unknown columns: {sorted(unknown)}")
    try:
        scored = correction.score_one(person.score, detail=True, **person.columns)
    except PropcalError as error:
        raise HTTPException(422, str(error)) from None
    return {
        "corrected": scored.score,
        "unseen": scored.unseen,
        "model": scored.model_id,
    }


@app.get("/health")
def health() -> dict[str, Any]:
    correction = current()
    return {"model": correction.model_id, "problem": state["problem"]}
