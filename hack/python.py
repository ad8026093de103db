"""Prints the interpreter of a Python environment with the packages of a list, and makes it if there is none.

    python3 hack/python.py NAME REQUIREMENTS [OPTION OF PIP …]

The environments are in the user's cache, one for each list. The exit status is 3 if packages are missing and the
package index can't be reached.
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

OFFLINE = 3


def install(interpreter: pathlib.Path, requirements: pathlib.Path, options: list[str]) -> int:
    pip = [interpreter, "-m", "pip", "--disable-pip-version-check"]
    code = subprocess.run([*pip, "install", "--quiet", "-r", requirements, *options], stdout=sys.stderr).returncode
    if code == 0:
        return 0
    # If a small package can't be downloaded either, it isn't the list's fault.
    with tempfile.TemporaryDirectory() as folder:
        probe = [*pip, "download", "--quiet", "--no-cache-dir", "--no-deps", "--dest", folder, "iniconfig"]
        return code if subprocess.run(probe, stdout=sys.stderr).returncode == 0 else OFFLINE


def main(name: str, requirements: str, *options: str) -> int:
    if sys.version_info < (3, 11):
        print("error: Python 3.11 or newer is needed", file=sys.stderr)
        return 1
    wanted = pathlib.Path(requirements)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "csenv" / "conformance"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]
    home = cache / f"{name}-{digest}"
    interpreter, installed = home / "bin" / "python", home / "requirements.txt"
    cache.mkdir(parents=True, exist_ok=True)
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The interpreter is a link. It is broken if the Python that made the environment was removed.
        if not (installed.exists() and interpreter.exists()):
            print(f"==> installing the packages of {name} into {home} (some minutes, once)", file=sys.stderr)
            try:
                venv.create(home, with_pip=True, clear=True)
            except subprocess.CalledProcessError as e:
                print(f"error: {e}: the module ensurepip is needed, on Debian the package python3-venv", file=sys.stderr)
                return 1
            if code := install(interpreter, wanted, list(options)):
                return code
            shutil.copy(wanted, installed)  # marks the environment as complete
    print(interpreter)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
