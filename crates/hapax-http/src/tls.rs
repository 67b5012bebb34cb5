//! Certificates and keys: what the edge shows to its callers (H11) and whom it believes when it calls others.
//!
//! rustls does the rest. Certificates can be changed while the edge runs: connections that are open keep theirs, new ones
//! get the new one. When to read the files again is decided by whoever handles a reload.

use std::fmt::Display;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};

use crate::limits;
use crate::settings::Tls;
use crate::setup::SetupError;

/// What the edge speaks over TLS, what it likes best first. A client that offers nothing else than HTTP/1.0 is served as it would
/// be without a word about it.
const PROTOCOLS: [&[u8]; 3] = [b"h2", b"http/1.1", b"http/1.0"];

/// The edge's certificate and key, which can be read again while it runs.
#[derive(Debug)]
pub struct Certificates {
    files: Tls,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

impl Certificates {
    /// Reads the files.
    pub fn load(files: &Tls) -> Result<Self, SetupError> {
        let current = Arc::new(Current(ArcSwap::from_pointee(read_pair(files)?)));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| SetupError::internal("TLS cannot be set up").with_detail(error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = PROTOCOLS.map(Vec::from).into();
        Ok(Certificates { files: files.clone(), current, config: Arc::new(config) })
    }

    /// Reads the files again. After an error everything is as it was.
    pub fn reload(&self) -> Result<(), SetupError> {
        let pair = read_pair(&self.files)?;
        self.current.0.store(Arc::new(pair));
        Ok(())
    }

    /// The files it is read from.
    pub fn files(&self) -> &Tls {
        &self.files
    }

    /// How the process itself calls this listener: it believes the certificate that is shown, and no other. Who has signed it and
    /// which name is in it does not matter. It stays good over reloads.
    pub fn own_client(&self) -> Result<Arc<ClientConfig>, SetupError> {
        let believed = Arc::new(OwnCertificate { current: Arc::clone(&self.current), provider: provider() });
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| SetupError::internal("TLS cannot be set up").with_detail(error))?
            .dangerous()
            .with_custom_certificate_verifier(believed)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }

    /// What a listener needs. It stays good over reloads.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// Believes the certificate that the listener shows now.
#[derive(Debug)]
struct OwnCertificate {
    current: Arc<Current>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OwnCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.current.0.load().cert.first() {
            Some(own) if own == end_entity => Ok(ServerCertVerified::assertion()),
            _ => Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whom to believe when calling others: the certificates in this PEM file, or those of the system.
pub fn client_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, SetupError> {
    let roots = match ca {
        Some(file) => roots_of_file(file)?,
        None => roots_of_system()?,
    };
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::internal("TLS cannot be set up").with_detail(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn read_pair(files: &Tls) -> Result<CertifiedKey, SetupError> {
    let chain = read_chain(&files.cert)?;
    let unreadable = |error: &dyn Display| bad("the private key cannot be read", &files.key, error);
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|error| unreadable(&error))?;
    let key = provider().key_provider.load_private_key(key).map_err(|error| unreadable(&error))?;
    let pair = CertifiedKey::new(chain, key);
    pair.keys_match()
        .map_err(|error| bad("the certificate does not belong to the private key", &files.cert, &error))?;
    Ok(pair)
}

fn roots_of_file(file: &Path) -> Result<RootCertStore, SetupError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_chain(file)? {
        let added = roots.add(certificate);
        added.map_err(|error| bad("a certificate to trust cannot be used", file, &error))?;
    }
    Ok(roots)
}

/// The system's certificates. Some that cannot be read are none to believe; that there are none at all is an error.
fn roots_of_system() -> Result<RootCertStore, SetupError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let errors = found.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        return Err(SetupError::invalid(
            "the system has no certificates to trust: install its package of CA certificates, or name a file",
        )
        .with_detail(errors));
    }
    Ok(roots)
}

fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let bytes = read(file)?;
    let chain = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad("the certificate cannot be read", file, &error))?;
    if chain.is_empty() {
        return Err(bad("the certificate cannot be read", file, &"there is none in this file"));
    }
    Ok(chain)
}

/// A file of a size that certificates have; whatever is much larger was named by mistake.
fn read(file: &Path) -> Result<Vec<u8>, SetupError> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file)
        .and_then(|opened| opened.take(limits::PEM + 1).read_to_end(&mut bytes))
        .map_err(|error| bad("a file for TLS cannot be read", file, &error))?;
    if read as u64 > limits::PEM {
        return Err(bad("a file for TLS cannot be read", file, &"it is too long to hold certificates"));
    }
    Ok(bytes)
}

fn bad(what: &str, file: &Path, why: &dyn Display) -> SetupError {
    SetupError::invalid(format!("{what}: {}: {why}", file.display()))
}
