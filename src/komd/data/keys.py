"""Keys as callers give them, in the form in which ids are compared: integers, Arrow values, bytes.

A key that cannot be an id of that kind is marked as such and raises no error: it is an unknown id.
"""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["array_of", "byte_strings", "bytes_of", "integers", "is_bytes", "is_text", "is_uuid", "plain", "show"]

# What Arrow raises for a value that is not of a type; ArrowInvalid and UnicodeError are ValueErrors.
_UNFIT = (pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError)


def is_text(t: pa.DataType) -> bool:
    """Whether an Arrow type is text, with short or long offsets."""
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def is_bytes(t: pa.DataType) -> bool:
    """Whether an Arrow type is bytes, of any or of a fixed length."""
    return bool(pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t))


def is_uuid(t: pa.DataType) -> bool:
    """Whether an Arrow type is that of UUIDs."""
    return isinstance(t, pa.BaseExtensionType) and t.extension_name == "arrow.uuid"


def plain(key: Any) -> Any:
    """A key as a value of Python."""
    if isinstance(key, pa.Scalar):
        return key.as_py()
    return key.item() if isinstance(key, np.generic) else key


def show(key: Any) -> str:
    """A key as it is shown in a message."""
    key = plain(key)
    if isinstance(key, str) and len(key) > 60:
        return repr(key[:59] + "…")
    return repr(key) if isinstance(key, str | int | bytes) else str(key)


def integers(keys: Any, dtype: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The keys as integers, and which of them are integers of that type at all."""
    if isinstance(keys, pa.Array):
        if pa.types.is_integer(keys.type) and keys.null_count == 0:
            keys = keys.to_numpy(zero_copy_only=False)
        else:
            keys = keys.to_pylist()
    if isinstance(keys, list) and not set(map(type, keys)) <= {int}:  # numpy would blend types: 1, "1" -> "1", "1"
        keys = np.array([_whole(key) for key in keys], dtype=object)
    array = np.asarray(keys)
    if isinstance(keys, list) and array.dtype.kind == "f":  # from integers too far apart for one type
        array = np.array(keys, dtype=object)
    if array.dtype == dtype:
        return array, np.ones(len(array), bool)
    bounds = np.iinfo(dtype)
    if array.dtype.kind in "iu":
        usable = np.asarray((array >= bounds.min) & (array <= bounds.max))
        return np.where(usable, array, 0).astype(dtype), usable
    if array.dtype.kind == "f":
        usable = (array == np.floor(array)) & (array >= -(2.0**63)) & (array < 2.0**63) & (array >= bounds.min)
        return np.where(usable, array, 0).astype(dtype), usable
    whole = [_whole(key) for key in array.tolist()] if array.dtype.kind != "b" else [None] * len(array)
    usable = np.array([key is not None and bounds.min <= key <= bounds.max for key in whole], bool)
    return np.array([key if ok else 0 for key, ok in zip(whole, usable, strict=True)], dtype), usable


def _whole(key: Any) -> int | None:
    key = plain(key)
    if isinstance(key, float) and key.is_integer():
        return int(key)
    return key if isinstance(key, int) and not isinstance(key, bool) else None


def array_of(keys: Any, t: pa.DataType) -> pa.Array:
    """The keys as an Arrow array of type `t`; null where a key cannot be one."""
    if isinstance(keys, pa.Array) and keys.type == t:
        return keys
    if isinstance(keys, pa.Array):
        if is_text(t) and is_text(keys.type):
            return keys.cast(t)
        keys = keys.to_pylist()
    if is_text(t):
        keys = [key if isinstance(key, str) else None for key in keys]
    try:
        return pa.array(keys, t)
    except _UNFIT:
        return pa.concat_arrays([_one(key, t) for key in keys])


def _one(key: Any, t: pa.DataType) -> pa.Array:
    try:
        return pa.array([plain(key)], t)
    except _UNFIT:
        return pa.nulls(1, t)


def bytes_of(keys: Any, t: pa.DataType) -> list[bytes | None]:
    """The keys as the bytes by which ids are ordered; None where a key cannot be one."""
    if isinstance(keys, pa.Array):
        if is_uuid(keys.type):
            keys = keys.storage
        keys = keys.to_pylist()
    if is_uuid(t):
        return [_uuid_bytes(key) for key in keys]
    if is_text(t):
        # A lone surrogate is no text that a file can hold: its bytes are found nowhere.
        return [key.encode(errors="surrogatepass") if isinstance(key, str) else None for key in keys]
    return [bytes(key) if isinstance(key, bytes) else None for key in keys]


def _uuid_bytes(key: Any) -> bytes | None:
    if isinstance(key, uuid.UUID):
        return key.bytes
    if isinstance(key, bytes):
        return bytes(key) if len(key) == 16 else None
    try:
        return uuid.UUID(key).bytes if isinstance(key, str) else None
    except ValueError:
        return None


def byte_strings(storage: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where the bytes of each value begin and end (one more than there are values), and the bytes of all."""
    n, first, buffers = len(storage), storage.offset, storage.buffers()
    held = buffers[-1] if buffers[-1] is not None else pa.py_buffer(b"")
    data = np.frombuffer(held, np.uint8) if held.size else np.zeros(0, np.uint8)
    if len(buffers) == 2:
        offsets = np.arange(first, first + n + 1, dtype=np.int64) * (storage.type.bit_width // 8)
    else:
        wide = pa.types.is_large_string(storage.type) or pa.types.is_large_binary(storage.type)
        offsets = np.frombuffer(buffers[1], np.int64 if wide else np.int32)[first : first + n + 1].astype(np.int64)
    data.flags.writeable = offsets.flags.writeable = False
    return offsets, data
