//! Certificates for tests, and a service that speaks TLS.
//!
//! The key of the authority was thrown away when it had signed; the certificates are good for a hundred years.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// The authority that signed the server's certificate.
pub(crate) fn authority() -> PathBuf {
    file("ca.crt")
}

/// A server for `localhost` and 127.0.0.1.
pub(crate) fn server(protocols: &[&str]) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(file("server.crt")).unwrap().collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}
