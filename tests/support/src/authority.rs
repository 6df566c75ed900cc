//! Certificate authorities for tests, by `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::{process, programs};

/// Time that making a key may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kinds of keys. RSA is the default of Open vSwitch's own tool.
pub const RSA: &[&str] = &["rsa:2048"];
/// As [`RSA`], on an elliptic curve.
pub const EC: &[&str] = &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];

/// An authority, with all its files in a folder.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
}

/// Files in PEM of a certificate that an authority has issued.
#[derive(Debug, Clone)]
pub struct IssuedCert {
    /// The private key.
    pub key: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
    /// The certificate of the authority.
    pub authority: PathBuf,
}

#[track_caller]
fn openssl(words: &[&str]) {
    let mut command = programs::command("openssl");
    command.args(words).stdin(Stdio::null());
    process::expect(command, TIMEOUT);
}

impl Authority {
    /// One with a folder of its name.
    ///
    /// # Panics
    ///
    /// When there is a folder of that name, or no `openssl`.
    #[must_use]
    #[track_caller]
    pub fn new(folder: &Path, name: &str) -> Authority {
        let authority = Authority { folder: folder.join(name) };
        fs::create_dir(&authority.folder).expect("a folder");
        let (key, certificate) = (authority.file("ca.key"), authority.file("ca.pem"));
        let subject = format!("/CN={name}");
        let make = [&["req", "-x509", "-newkey"], EC, &["-nodes", "-days", "2"]].concat();
        let rest = ["-subj", &subject, "-keyout", &key, "-out", &certificate];
        openssl(&[&make[..], &rest].concat());
        authority
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// A key and a certificate for so many days.
    ///
    /// # Panics
    ///
    /// When `openssl` fails.
    #[must_use]
    #[track_caller]
    pub fn issue(&self, name: &str, kind: &[&str], days: &str) -> IssuedCert {
        let extensions = self.file("extensions");
        fs::write(&extensions, "basicConstraints=CA:false\n").expect("a file");
        self.sign(name, kind, &["-days", days, "-extfile", &extensions])
    }

    /// A key and a certificate of version 1 of X.509, which has no extensions.
    ///
    /// # Panics
    ///
    /// When `openssl` fails.
    #[must_use]
    #[track_caller]
    pub fn issue_without_extensions(&self, name: &str, kind: &[&str]) -> IssuedCert {
        self.sign(name, kind, &["-days", "2"])
    }

    #[track_caller]
    fn sign(&self, name: &str, kind: &[&str], options: &[&str]) -> IssuedCert {
        let (key, request) = (self.file(&format!("{name}.key")), self.file("request"));
        let certificate = self.file(&format!("{name}.pem"));
        let subject = format!("/CN={name}");
        let rest = ["-nodes", "-subj", &subject, "-keyout", &key, "-out", &request];
        openssl(&[&["req", "-newkey"], kind, &rest].concat());
        let (authority, of_authority) = (self.file("ca.pem"), self.file("ca.key"));
        let make = ["x509", "-req", "-in", &request, "-CA", &authority, "-CAkey", &of_authority];
        let rest = ["-CAcreateserial", "-out", &certificate];
        openssl(&[&make[..], &rest, options].concat());
        let [key, certificate, authority] = [key, certificate, authority].map(PathBuf::from);
        IssuedCert { key, certificate, authority }
    }
}
