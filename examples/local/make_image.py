#!/usr/bin/env python3
"""Writes image/, an OCI image layout that stands in for the Ray Train DLC where no registry can be reached.

It carries the labels and environment that the published image documents and one empty layer: enough for the image
stage, nothing that could run. The bytes are the same every time, so that the digests in pods.json stay right.
"""
import gzip
import hashlib
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
LAYOUT = HERE / "image"


def blob(data: bytes) -> dict:
    digest = hashlib.sha256(data).hexdigest()
    path = LAYOUT / "blobs" / "sha256" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def encoded(document: dict) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"


def main() -> None:
    tar = bytes(1024)  # an empty tar archive is two zero blocks
    layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **blob(gzip.compress(tar, mtime=0))}
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "Env": ["DLC_CONTAINER_TYPE=training", "FI_PROVIDER=efa", "NCCL_DEBUG=INFO"],
            "Entrypoint": ["/usr/local/bin/entrypoint.sh"],
            "Labels": {
                "maintainer": "Amazon AI",
                "framework": "ray",
                "framework_version": "2.58.0",
                "dlc_major_version": "1",
                "dlc_minor_version": "1",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest()]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **blob(encoded(config))},
        "layers": [layer],
    }
    member = {
        "mediaType": manifest["mediaType"],
        **blob(encoded(manifest)),
        "platform": {"os": "linux", "architecture": "amd64"},
    }
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [member],
    }
    top = {"mediaType": index["mediaType"], **blob(encoded(index))}
    top["annotations"] = {"org.opencontainers.image.ref.name": "train-ml-cuda-v1.1.0"}
    (LAYOUT / "oci-layout").write_bytes(encoded({"imageLayoutVersion": "1.0.0"}))
    (LAYOUT / "index.json").write_bytes(encoded({"schemaVersion": 2, "manifests": [top]}))
    print(top["digest"])


if __name__ == "__main__":
    main()
