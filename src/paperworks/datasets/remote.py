"""Data from the network: files with a known SHA-256, and the regression tasks of OpenML. Both are kept on disk."""

from __future__ import annotations

import hashlib
import os
import warnings
from functools import partial
from pathlib import Path

from paperworks.datasets.record import DataError, Dataset, Table

__all__ = ["DATASETS", "cache_folder", "remote_file"]

_OPENML = "www.openml.org"

# OpenML task: (data set id, name, rows, features). Suite 336, numerical features, of the tabular benchmark.
_TASKS = {
    361072: (44132, "cpu_act", 8192, 21),
    361073: (44133, "pol", 15000, 26),
    361074: (44134, "elevators", 16599, 16),
    361076: (44136, "wine_quality", 6497, 11),
    361077: (44137, "Ailerons", 13750, 33),
    361078: (44138, "houses", 20640, 8),
    361079: (44139, "house_16H", 22784, 16),
    361080: (44140, "diamonds", 53940, 6),
    361081: (44141, "Brazilian_houses", 10692, 8),
    361082: (44142, "Bike_Sharing_Demand", 17379, 6),
    361084: (44144, "house_sales", 21613, 15),
    361085: (44145, "sulfur", 10081, 6),
    361086: (44146, "medical_charges", 163065, 5),
    361087: (44147, "MiamiHousing2016", 13932, 14),
    361088: (44148, "superconduct", 21263, 79),
    361279: (45032, "yprop_4_1", 8885, 42),
    361280: (45033, "abalone", 4177, 7),
}


def cache_folder() -> Path:
    """Return the folder of downloaded data: ``PAPERWORKS_CACHE``, or the user's cache folder of this system."""
    import platformdirs

    return Path(os.environ.get("PAPERWORKS_CACHE") or platformdirs.user_cache_dir("paperworks"))


def remote_file(url: str, sha256: str, name: str) -> Path:
    """Return the path of a downloaded file, from the cache if it is there with the right content.

    Parameters
    ----------
    url : str
        Address, http or https.
    sha256 : str
        SHA-256 of the content, 64 hexadecimal digits.
    name : str
        File name in the cache folder.

    Returns
    -------
    Path
        A file whose content has that SHA-256.

    Raises
    ------
    DataError
        If the file can't be had (no network, wrong content); the message says where to put it by hand.
    """
    path = cache_folder() / name
    if path.is_file() and _sha256(path) == sha256.lower():
        return path
    import pooch

    pooch.get_logger().setLevel("WARNING")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(url, known_hash=f"sha256:{sha256.lower()}", fname=path.name, path=path.parent)
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) and "hash" in str(error).lower():
            reason = "its content does not have the expected SHA-256"
        else:
            reason = f"no connection ({type(error).__name__})"
        raise DataError(
            f"{name} cannot be had from {url}: {reason}; put the file by hand at {path} (SHA-256 {sha256.lower()})"
        ) from error
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _openml(task: int) -> Table:
    from sklearn.datasets import fetch_openml

    data_id, name, *_ = _TASKS[task]
    folder = cache_folder() / "openml"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a retry is announced by a warning; the error below says it all
            bunch = fetch_openml(data_id=data_id, as_frame=True, parser="auto", data_home=folder, n_retries=1)
    except (OSError, ValueError) as error:
        raise DataError(
            f"openml-task:{task} ({name}, OpenML data set {data_id}) cannot be had from {_OPENML}: "
            f"{type(error).__name__}; it needs a network once and is then kept in {folder}"
        ) from error
    if bunch.details["name"] != name:
        raise DataError(f"openml-task:{task}: OpenML data set {data_id} is {bunch.details['name']!r}, not {name!r}")
    return Table(bunch.data, bunch.target.astype(float), str(bunch.target.name))


DATASETS = tuple(
    Dataset(
        name=f"openml-task:{task}",
        kind="table",
        task="regression",
        shape=(rows, features),
        licence="as stated at OpenML",
        source=f"L. Grinsztajn et al., Why do tree-based models still outperform deep learning on typical tabular "
        f"data?, NeurIPS 2022; https://{_OPENML}/d/{data_id}",
        loader=partial(_openml, task),
        description=f"{name}, numerical features",
        host=_OPENML,
    )
    for task, (data_id, name, rows, features) in _TASKS.items()
)
