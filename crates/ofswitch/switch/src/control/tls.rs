//! TLS: mutual authentication of switch and controllers.
//!
//! Both sides have a certificate that an authority the other trusts has signed. Names in
//! certificates are not looked at, as Open vSwitch does it: an authority of OpenFlow signs for
//! controllers and switches alone, whose addresses change and are in no certificate.
//!
//! Keys and certificates are read once; cryptography is graviola's (see `docs/dependencies.md`),
//! which needs a processor of about 2014 or later.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig,
    SignatureScheme,
};

use super::Credentials;

/// Why TLS cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A target wants it, and there are no files.
    #[error("{0} needs a private key, a certificate and those of authorities")]
    Missing(String),
    /// The processor lacks instructions.
    #[error("TLS needs a processor with {0}")]
    Processor(&'static str),
    /// A file cannot be used.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        problem: String,
    },
}

impl TlsError {
    fn file(path: &Path, problem: impl ToString) -> TlsError {
        TlsError::File { path: path.to_owned(), problem: problem.to_string() }
    }
}

/// TLS configurations for both ends of connections.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
}

/// Checks the processor for the features graviola needs; without them it would panic.
fn supported() -> Result<(), TlsError> {
    #[cfg(target_arch = "x86_64")]
    {
        let found = is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("adx")
            && is_x86_feature_detected!("avx2");
        if !found {
            return Err(TlsError::Processor("adx, aes, avx2, bmi1 and pclmulqdq"));
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        use std::arch::is_aarch64_feature_detected;
        let found = is_aarch64_feature_detected!("aes")
            && is_aarch64_feature_detected!("pmull")
            && is_aarch64_feature_detected!("sha2");
        if !found {
            return Err(TlsError::Processor("aes, pmull and sha2"));
        }
    }
    Ok(())
}

/// The error for a certificate of version 1 of X.509, which has no extensions to name its use.
pub(super) const OLD_CERTIFICATE: &str = "the certificate is of version 1 of X.509: it has to be made with \
    extensions, that is of version 3 (for `openssl x509 -req` by -extfile)";

/// Returns true if a certificate has a version, which those of the first lack (RFC 5280, section
/// 4.1).
fn has_version(certificate: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let inside = |bytes: &'_ [u8]| {
        let long = usize::from(*bytes.get(1)? & 0x7f);
        let header = if bytes[1] & 0x80 == 0 { 2 } else { 2 + long };
        (bytes[0] == SEQUENCE).then_some(header)
    };
    let content = inside(certificate).and_then(|header| certificate.get(header..));
    let first = content.and_then(|content| content.get(inside(content)?..));
    // Other content is refused later, as no certificate.
    first.and_then(<[u8]>::first).is_none_or(|tag| *tag == VERSION)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |path| CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let found = read(path).map_err(|error| TlsError::file(path, error))?;
    if found.is_empty() {
        return Err(TlsError::file(path, "no certificate in PEM"));
    }
    Ok(found)
}

impl Tls {
    pub(super) fn load(credentials: &Credentials) -> Result<Tls, TlsError> {
        supported()?;
        let provider = Arc::new(rustls_graviola::default_provider());
        let chain = certificates(&credentials.certificate)?;
        if chain.first().is_some_and(|certificate| !has_version(certificate)) {
            return Err(TlsError::file(&credentials.certificate, OLD_CERTIFICATE));
        }
        let key = PrivateKeyDer::from_pem_file(&credentials.key)
            .map_err(|error| TlsError::file(&credentials.key, error))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&credentials.authorities)? {
            let added = roots.add(certificate);
            added.map_err(|error| TlsError::file(&credentials.authorities, error))?;
        }
        let roots = Arc::new(roots);
        let of_authority = |error: rustls::server::VerifierBuilderError| {
            TlsError::file(&credentials.authorities, error)
        };
        let of_key = |error: rustls::Error| TlsError::file(&credentials.key, error);

        let servers = Arc::clone(&provider);
        let names = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), servers);
        let verifier = Arc::new(AnyName(names.build().map_err(of_authority)?));
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(of_key)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(of_key)?;

        let clients = Arc::clone(&provider);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, clients)
            .build()
            .map_err(of_authority)?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(of_key)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(of_key)?;
        Ok(Tls { client: Arc::new(client), server: Arc::new(server) })
    }
}

/// A certificate is checked in all but its name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        match self.0.verify_server_cert(certificate, between, name, ocsp, now) {
            // The last thing that is looked at: the chain, its times and uses were right.
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_certificates_are_told() {
        // A certificate, its signed part, and there a version or else a serial number at once.
        let third = [0x30, 0x82, 0x01, 0x02, 0x30, 0x81, 0xf0, 0xa0, 0x03, 0x02, 0x01, 0x02];
        let first = [0x30, 0x82, 0x01, 0x02, 0x30, 0x30, 0x02, 0x01, 0x07];
        assert!(has_version(&third));
        assert!(!has_version(&first));
        for other in [&[][..], &[0x30], &[0x30, 0x05], &[0x31, 0x02, 0, 0], &first[..5]] {
            assert!(has_version(other), "{other:02x?} is no certificate");
        }
    }
}
