"""Makes a wheel of the compiled module: what pip calls (PEP 517), and cargo does the work.

LINERATE_LIBRARY names a library that is compiled already, as the tests have one.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sysconfig
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = HERE / "python" / "linerate"
LIBRARY = "liblinerate_client_python.so"
# The oldest Python whose stable interface has buffers.
TAG = "cp311-abi3"


def _workspace():
    with open(HERE.parents[2] / "Cargo.toml", "rb") as manifest:
        return tomllib.load(manifest)["workspace"]["package"]


def _library():
    given = os.environ.get("LINERATE_LIBRARY")
    if given:
        return pathlib.Path(given)
    command = ["cargo", "build", "--release", "--locked", "--manifest-path", HERE / "Cargo.toml"]
    built = subprocess.run(command + ["--message-format", "json"], stdout=subprocess.PIPE, text=True)
    if built.returncode:
        raise SystemExit("cargo cannot compile the module")
    return pathlib.Path(re.findall(rf'"([^"]*/{LIBRARY})"', built.stdout)[-1])


def _platform():
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package = _workspace()
    version, tag = package["version"], f"{TAG}-{_platform()}"
    files = {f"linerate/{path.name}": path.read_bytes() for path in PACKAGE.iterdir() if path.is_file()}
    files["linerate/_client.abi3.so"] = _library().read_bytes()
    info = f"linerate-{version}.dist-info"
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{name}"] = (HERE.parents[2] / name).read_bytes()
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: linerate\nVersion: {version}\n"
        "Summary: Packets of a Linerate cluster, without a copy\n"
        f"License-Expression: {package['license']}\n"
        "License-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n"
        f"Project-URL: Source, {package['repository']}\n"
        "Requires-Python: >=3.11\nProvides-Extra: numpy\nRequires-Dist: numpy; extra == 'numpy'\n"
    ).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: linerate\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    record = f"{info}/RECORD"
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    wheel = f"linerate-{version}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            # The same sources make the same wheel: the time of all is the earliest there is.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return wheel
