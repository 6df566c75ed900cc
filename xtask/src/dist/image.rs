//! Container image: one layer over nothing, as an archive of the layout that container engines
//! load.
//!
//! OCI Image Format Specification 1.1, "Image Layout", "Image Manifest" and "Image Configuration".
//! Older engines look for `manifest.json` instead, which is there, too.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Release, architecture, archive::Archive, archive::gzipped, tree::Tree};

/// The folder of its examples, and the working directory of its programs.
const HOME: &str = "usr/share/linerate";

/// A file of the layout, by what it contains.
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Blob {
        Blob { digest: digest(&bytes), bytes }
    }

    fn json(value: &Value) -> Result<Blob> {
        Ok(Blob::new(serde_json::to_vec(value)?))
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    /// Returns the descriptor by which others refer to it.
    fn descriptor(&self, media_type: &str) -> Value {
        json!({
            "mediaType": format!("application/vnd.oci.image.{media_type}"),
            "digest": format!("sha256:{}", self.digest),
            "size": self.bytes.len(),
        })
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the image.
pub(super) fn make(release: &Release, tree: &Tree) -> Result<PathBuf> {
    let files = layer(release, tree)?;
    let diff = digest(&files);
    let layer = Blob::new(gzipped(&files)?);
    let created = UNIX_EPOCH + Duration::from_secs(release.time);
    let config = Blob::json(&json!({
        "created": humantime::format_rfc3339_seconds(created).to_string(),
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/linerate"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": format!("/{HOME}"),
            "Labels": {
                "org.opencontainers.image.title": "linerate",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff}")] },
        "history": [{ "created_by": "cargo xtask dist" }],
    }))?;
    let manifest = Blob::json(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar+gzip")],
    }))?;
    let mut named = manifest.descriptor("manifest.v1+json");
    named["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [named],
    });
    let old = json!([{
        "Config": config.path(),
        "RepoTags": [format!("linerate:{}", release.version)],
        "Layers": [layer.path()],
    }]);

    let path = release.path(&format!("linerate-{}-image.tar", release.version));
    let file = fs::File::create(&path).with_context(|| format!("cannot write {path:?}"))?;
    let mut archive = Archive::new(file, release.time);
    let layout = json!({ "imageLayoutVersion": "1.0.0" });
    for (name, value) in [("oci-layout", layout), ("index.json", index), ("manifest.json", old)] {
        archive.file(name, 0o644, &serde_json::to_vec(&value)?)?;
    }
    for blob in [&config, &manifest, &layer] {
        archive.file(&blob.path(), 0o644, &blob.bytes)?;
    }
    archive.finish()?;
    Ok(path)
}

/// All files of the image.
fn layer(release: &Release, tree: &Tree) -> Result<Vec<u8>> {
    let mut archive = Archive::new(Vec::new(), release.time);
    for program in &tree.programs {
        archive.file(&format!("usr/bin/{}", program.path), 0o755, &program.bytes)?;
    }
    for example in &tree.examples {
        archive.file(&format!("{HOME}/examples/{}", example.path), 0o644, &example.bytes)?;
    }
    for document in &tree.documents {
        archive.file(
            &format!("usr/share/doc/linerate/{}", document.path),
            0o644,
            &document.bytes,
        )?;
    }
    // Captures and sockets go somewhere.
    archive.folder("tmp".as_ref(), 0o1777)?;
    archive.finish()
}
