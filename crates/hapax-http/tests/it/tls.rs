//! Certificates (H11): shown, changed while the edge runs, and kept when the new ones are no good.

use std::path::Path;
use std::sync::Arc;

use hapax_http::SetupFault;
use hapax_http::settings::Tls;
use hapax_http::tls::{Certificates, client_config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A folder with an authority, and with what it made for the edge.
struct Folder {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Folder {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let made = Folder { folder, authority };
        made.issue();
        made
    }

    fn files(&self) -> Tls {
        Tls { cert: self.path("edge.crt"), key: self.path("edge.key") }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A new certificate and key, in PEM.
    fn make(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn write(&self, certificate: &str, key: &str) {
        std::fs::write(self.path("edge.crt"), certificate).unwrap();
        std::fs::write(self.path("edge.key"), key).unwrap();
    }

    fn issue(&self) {
        let (certificate, key) = self.make();
        self.write(&certificate, &key);
    }
}

/// What a client sees of a server.
#[derive(Debug, PartialEq)]
struct Seen {
    certificate: Vec<u8>,
    protocol: Option<Vec<u8>>,
    version: Option<ProtocolVersion>,
}

async fn shake(certificates: &Certificates, client: Arc<ClientConfig>) -> std::io::Result<Seen> {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let acceptor = TlsAcceptor::from(certificates.server_config());
    let serving = tokio::spawn(async move {
        let mut stream = acceptor.accept(ours).await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await
    });
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(client).connect(name, theirs).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    assert_eq!(said, "hello");
    serving.await.unwrap()?;
    let connection = stream.get_ref().1;
    Ok(Seen {
        certificate: connection.peer_certificates().unwrap()[0].to_vec(),
        protocol: connection.alpn_protocol().map(Vec::from),
        version: connection.protocol_version(),
    })
}

/// A client that believes this folder's authority and speaks these protocols.
fn client(folder: &Folder, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&client_config(Some(&folder.path("ca.pem"))).unwrap());
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

#[tokio::test]
async fn the_edge_speaks_h2_and_http_1_over_tls_h11() {
    let folder = Folder::new();
    let certificates = Certificates::load(&folder.files()).unwrap();
    let seen = shake(&certificates, client(&folder, &[b"http/1.1", b"h2"])).await.unwrap();
    assert_eq!(seen.protocol.as_deref(), Some(&b"h2"[..]), "the edge likes it best");
    assert_eq!(seen.version, Some(ProtocolVersion::TLSv1_3));
    let seen = shake(&certificates, client(&folder, &[b"http/1.1"])).await.unwrap();
    assert_eq!(seen.protocol.as_deref(), Some(&b"http/1.1"[..]));
    assert!(shake(&certificates, client(&folder, &[])).await.is_ok());
    let seen = shake(&certificates, client(&folder, &[b"http/1.0"])).await.unwrap();
    assert_eq!(seen.protocol.as_deref(), Some(&b"http/1.0"[..]), "a client that knows nothing newer");
    let seen = shake(&certificates, client(&folder, &[b"http/1.0", b"http/1.1"])).await.unwrap();
    assert_eq!(seen.protocol.as_deref(), Some(&b"http/1.1"[..]));
    assert!(shake(&certificates, client(&folder, &[b"spdy/3"])).await.is_err(), "nothing is spoken by both");
}

#[tokio::test]
async fn a_client_believes_only_the_authority_it_was_given_h11() {
    let (folder, other) = (Folder::new(), Folder::new());
    let certificates = Certificates::load(&folder.files()).unwrap();
    assert!(shake(&certificates, client(&other, &[b"h2"])).await.is_err());
    assert!(shake(&certificates, client(&folder, &[b"h2"])).await.is_ok());
}

#[tokio::test]
async fn new_connections_get_the_new_certificate_after_a_reload_h11() {
    let folder = Folder::new();
    let certificates = Certificates::load(&folder.files()).unwrap();
    let before = shake(&certificates, client(&folder, &[b"h2"])).await.unwrap();
    folder.issue();
    let unchanged = shake(&certificates, client(&folder, &[b"h2"])).await.unwrap();
    assert_eq!(unchanged.certificate, before.certificate, "nobody asked to read it again");
    certificates.reload().unwrap();
    let after = shake(&certificates, client(&folder, &[b"h2"])).await.unwrap();
    assert_ne!(after.certificate, before.certificate);
}

#[tokio::test]
async fn a_reload_that_fails_changes_nothing_h11() {
    let folder = Folder::new();
    let certificates = Certificates::load(&folder.files()).unwrap();
    let before = shake(&certificates, client(&folder, &[b"h2"])).await.unwrap();
    let ((certificate, key), (_, other_key)) = (folder.make(), folder.make());
    let cut = &certificate[..certificate.len() / 2];
    let long = "x".repeat(2 << 20);
    let wrong = [
        (certificate.as_str(), other_key.as_str(), "does not belong"),
        (cut, &key, "cannot be read"),
        ("", &key, "cannot be read"),
        (&key, &key, "cannot be read"),
        (&certificate, "", "cannot be read"),
        (&certificate, &certificate, "cannot be read"),
        (&long, &key, "too long"),
    ];
    for (certificate, key, says) in wrong {
        folder.write(certificate, key);
        let error = certificates.reload().unwrap_err();
        assert_eq!(error.fault(), SetupFault::Invalid);
        assert!(error.to_string().contains(says), "{error}");
        assert!(Certificates::load(&folder.files()).is_err());
        assert_eq!(shake(&certificates, client(&folder, &[b"h2"])).await.unwrap(), before);
    }
    folder.write(&certificate, &key);
    std::fs::remove_file(folder.path("edge.key")).unwrap();
    assert!(certificates.reload().unwrap_err().to_string().contains("edge.key"), "it says which file");
    folder.write(&certificate, &key);
    certificates.reload().unwrap();
    assert_ne!(shake(&certificates, client(&folder, &[b"h2"])).await.unwrap(), before);
}

#[test]
fn an_authority_that_cannot_be_read_is_an_error_and_not_everybody() {
    let folder = Folder::new();
    let empty = folder.path("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for file in [empty.as_path(), Path::new("no/such/file"), &folder.path("edge.key")] {
        assert_eq!(client_config(Some(file)).unwrap_err().fault(), SetupFault::Invalid);
    }
}
