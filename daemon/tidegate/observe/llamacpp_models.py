"""llama.cpp in router mode: whether to ask for a model's metrics, for `/metrics?model=X` loads X (llama.cpp#19346).

Source: `tools/server/README.md`, "Using multiple models".
"""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urljoin, urlsplit


def model_asked(url: str) -> str | None:
    """The model that a page's address names; None when it names none."""
    return next(iter(parse_qs(urlsplit(url).query).get("model", ())), None)


def models_url(url: str) -> str:
    """Where the router lists its models, beside that page."""
    return urljoin(url, "models")


def not_loaded(body: bytes, model: str) -> str | None:
    """Why the model's page must not be read, by the list of models; None when nothing there forbids it."""
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    listed = document.get("data") if isinstance(document, dict) else None
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and entry.get("id") == model:
            status = entry.get("status")
            value = status.get("value") if isinstance(status, dict) else status
            if isinstance(value, str) and value != "loaded":
                return f"the model {model!r} is {value[:20]}: not read, for reading its page would load it"
    return None
