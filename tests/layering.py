#!/usr/bin/env python3
"""Who may include whom, read off every #include of ours.

A folder may include itself, what its row lists (with everything below), and the standard library. A third-party header
has owners; nobody else may include it, so that a library stays behind the module that wraps it.

  layering.py ROOT              exits 1 and names file:line, the header and the rule for every breach
"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "probes/observations": [],
    "probes/input": ["probes/observations"],
    "probes/documents": ["probes/observations"],
    "probes/control/sha256": ["probes/observations"],
    "probes/control/process": ["probes/observations"],
    "probes/control/http": ["probes/observations", "probes/control/process"],
    "probes/control/registry": ["probes/observations", "probes/input", "probes/control/sha256", "probes/control/process", "probes/control/http"],
    "probes/control/files": ["probes/observations", "probes/input", "probes/documents"],
    "probes/control/kubernetes": ["probes/observations", "probes/input", "probes/documents", "probes/control/process",
                                  "probes/control/http", "probes/control/files"],
    "probes/control/ray": ["probes/observations", "probes/input", "probes/control/process", "probes/control/http",
                           "probes/control/files", "probes/control/kubernetes"],
    "probes/control/launcher": ["probes/observations", "probes/control/process"],
    "probes/control/ray_ranks": ["probes/observations", "probes/input", "probes/control/process", "probes/control/http", "probes/control/sha256",
                                 "probes/control/ray", "probes/control/launcher"],
    "kernels": [],
    "probes/node": ["probes/observations", "kernels"],
    "checks": ["probes/observations", "probes/documents"],
    "reports": ["probes/observations", "checks"],
    "reports/evidence": ["probes/observations", "probes/input", "checks", "reports"],
    "cmd": ["probes", "checks", "reports", "kernels"],
    "cmd/dlc-probe": ["probes/observations", "probes/node", "kernels", "cmd"],
}
OWNERS = {
    "curl/": ["probes/control/http"],
    "yaml-cpp/": ["probes/documents"],
    "CLI/": ["cmd/dlc-check"],
    "cuda": ["kernels"],
    "nccl": [],
    "rdma/": ["probes/node/fabric"],
    "valijson/": ["reports/evidence"],
    "openssl/": ["probes/control/http", "probes/control/sha256", "reports/evidence", "probes/node/sha256",
                 "probes/control/launcher"],
    "nlohmann/": ["probes", "reports", "cmd"],
    "fmt/": ["reports", "cmd/dlc-check"],
    "doctest/": [],
    "fuse": [],
}
SUFFIXES = (".h", ".cpp", ".cu", ".cuh", ".in")
OURS = ("cmd/", "checks/", "probes/", "kernels/", "reports/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def below(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def module_of(path: str) -> str:
    fitting = [module for module in MAY_INCLUDE if below(path, [module])]
    return max(fitting, key=len, default="")


def sources(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for folder in OURS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)


def breaches(root: pathlib.Path, files: list[pathlib.Path]):
    for path in files:
        name = path.relative_to(root).as_posix()
        folder = path.relative_to(root).parent.as_posix()
        module = module_of(folder)
        if not module:
            yield f"{name}: folder {folder} has no row in tests/layering.py"
            continue
        includes = [(number, match) for number, line in enumerate(path.read_text().splitlines(), 1) if (match := INCLUDE.match(line))]
        own = path.with_suffix(".h")
        first = includes[0][1].group(2) if includes else ""
        if path.suffix == ".cpp" and own.exists() and first != own.relative_to(root).as_posix():
            yield f"{name}: include its own header first, which shows that it is self-contained"
        for number, match in includes:
            header = match.group(2)
            if header.startswith(OURS):
                target = module_of(str(pathlib.PurePosixPath(header).parent))
                if target != module and not below(target, MAY_INCLUDE[module]):
                    yield f"{name}:{number}: {module} may not include {header} (allowed: {MAY_INCLUDE[module] or 'nothing of ours'})"
            elif match.group(1) == '"':
                yield f"{name}:{number}: include our headers from the repository root, not {header}"
            for prefix, owners in OWNERS.items():
                if header.startswith(prefix) and not below(folder, owners):
                    yield f"{name}:{number}: only {owners or 'tests'} may include <{header}>"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    files = sources(root)
    found = list(breaches(root, files))
    for breach in found:
        print(breach)
    print(f"layering: {len(files)} files read, {len(found)} breaches")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
