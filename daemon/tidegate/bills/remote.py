"""Bills at an address of object storage (s3://, gs://, abfs://, ...) through fsspec (the extra `remote`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from tidegate.bills.manifests import bound, homes, is_manifest
from tidegate.bills.watch import Delivery
from tidegate.runtime.errors import Permanent, Transient

_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")
"""Under which of these a file system tells when a file was written."""
_ERRORS = (
    ("botocore.exceptions", "BotoCoreError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("azure.core.exceptions", "AzureError"),
    ("aiohttp", "ClientError"),
)
"""What the libraries behind protocols raise that is no OSError: no connection, no credentials."""
_LARGEST = 16 * 1024**3


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """An address with what is needed to read it; the secrets are never shown."""

    address: str
    options: Mapping[str, Any] = field(repr=False)

    def deliveries(self) -> Sequence[Delivery]:
        """What lies there, the oldest first; a manifest's folder as a whole. Raises Transient or Permanent."""
        files, changed = self._files()
        paths = {name: PurePosixPath(name) for name in files}
        manifests = [path for name, path in paths.items() if is_manifest(name)]
        found: list[Delivery] = []
        for name in sorted(files, key=lambda name: (changed[name], name)):
            if is_manifest(name):
                mine = homes(paths[name])
                covered = [other for other, path in paths.items() if any(home in path.parents for home in mine)]
            elif bound(paths[name], manifests):
                continue
            else:
                covered = [name]
            mark = json.dumps({each: files[each] for each in sorted(covered)})
            found.append(Delivery(name, tuple(Path(each) for each in sorted(covered)), mark))
        return found

    @contextmanager
    def fetched(self, delivery: Delivery, into: Path) -> Iterator[Sequence[Path]]:
        """The delivery's files on this machine while they are needed; what to import of them."""
        system, root = self._system()
        with TemporaryDirectory(dir=into, prefix=".fetch-") as folder:
            local: list[Path] = []
            for path in delivery.paths:
                target = Path(folder).joinpath(*path.parts)
                if ".." in path.parts or path.is_absolute():
                    raise Permanent(f"{self.address}: the name {str(path)[:100]!r} leaves its folder")
                target.parent.mkdir(parents=True, exist_ok=True)
                with self._explained():
                    system.get_file(f"{root}/{path}", str(target))
                local.append(target)
            manifests = [each for each in local if is_manifest(each.name)]
            yield manifests or local

    def _files(self) -> tuple[dict[str, str], dict[str, str]]:
        """Names below the address with what changes when the file does; and when it did, as text that sorts."""
        system, root = self._system()
        with self._explained():
            listed: Mapping[str, Mapping[str, Any]] = system.find(root, detail=True)
        found: dict[str, str] = {}
        changed: dict[str, str] = {}
        for path, info in listed.items():
            name = path.removeprefix(root).lstrip("/")
            if not name or PurePosixPath(name).name.startswith((".", "_")) or info.get("type") == "directory":
                continue
            if int(info.get("size") or 0) > _LARGEST:
                raise Permanent(f"{self.address}: {name} is larger than 16 GiB; import it in parts")
            state = (info.get("size"), info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("updated"))
            found[name] = str(state)
            changed[name] = str(next((info[key] for key in _TIMES if info.get(key)), ""))
        return found, changed

    def _system(self) -> tuple[Any, str]:
        try:
            import fsspec
        except ModuleNotFoundError as error:
            raise Permanent("[bills] address needs fsspec: pip install 'tidegate[remote]'") from error
        try:
            system, root = fsspec.core.url_to_fs(self.address, **self.options)
        except (ImportError, ValueError) as error:
            raise Permanent(f"[bills] address {self.address}: {error}") from error
        system.invalidate_cache()
        return system, str(root).rstrip("/")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise Permanent(f"{self.address} refuses us ({error}); check [bills] options_file") from error
        except FileNotFoundError as error:
            raise Permanent(f"{self.address}: there is nothing ({error})") from error
        except _errors() as error:
            raise Transient(f"{self.address} cannot be read ({error}); it is tried again") from error


def _errors() -> tuple[type[Exception], ...]:
    """What reading may raise: the system's errors, and those of libraries that the protocol has imported."""
    return OSError, *(getattr(sys.modules[module], name) for module, name in _ERRORS if module in sys.modules)


def options_in(file: Path) -> Mapping[str, Any]:
    """The JSON object of a file of credentials, handed to fsspec as it is; raises Permanent without its content."""
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise Permanent(f"[bills] options_file {file}: {error.strerror}") from error
    except ValueError:
        raise Permanent(f"[bills] options_file {file}: not JSON") from None
    if not isinstance(found, dict):
        raise Permanent(
            f"[bills] options_file {file}: must hold one JSON object, such as {{'key': ..., 'secret': ...}}"
        )
    return found
